package wire

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// pageToken is the content of a page token, in base64. It needs no seal: all that a forger wins is another position in
// a list that they may read anyway.
type pageToken struct {
	Version   int    `json:"v"`
	Operation string `json:"o"`
	Filters   string `json:"f"` // hash of the parameters beside the page's own
	Last      string `json:"k"` // key of the last item that was given
}

const pageTokenVersion = 1

// Page returns the items that follow token, at most max of them (the service's page size when max is nil), and the
// token of the next page or nil. items come in the same order each time, best sorted by key, which is unique among
// them. A token holds the operation, a hash of the other parameters and the last key: it survives a restart and items
// that come and go, and is refused with the service's error for another operation or other filters.
func Page[T any](ctx context.Context, items []T, max *int32, token *string, key func(T) string) (
	page []T, next *string, err error) {
	c := callFrom(ctx)
	limit, operation := 0, c.operation
	if c.service != nil {
		limit, operation = c.service.PageSize, c.service.SigningName+":"+c.operation
		if c.service == EFS { // whose tokens have 128 characters at most
			operation = c.service.Name + ":" + c.operation
		}
	}
	if max != nil && *max > 0 {
		limit = int(*max)
	}
	started := token != nil && *token != ""
	if !started && (limit == 0 || len(items) <= limit) {
		return items, nil, nil // everything on one page: most requests
	}
	want := pageToken{Version: pageTokenVersion, Operation: operation, Filters: fingerprint(c.input, true)}
	if started {
		last, err := openToken(c.service, *token, want)
		if err != nil {
			return nil, nil, err
		}
		items = items[indexAfter(items, last, key):]
	}
	if limit == 0 || len(items) <= limit {
		return items, nil, nil
	}
	page = items[:limit:limit]
	want.Last = key(page[limit-1])
	text, err := json.Marshal(want)
	if err != nil {
		return nil, nil, fmt.Errorf("page token: %w", err)
	}
	sealed := base64.RawURLEncoding.EncodeToString(text)
	return page, &sealed, nil
}

// indexAfter returns the index of the item that follows the one with key last, or if that is gone, the first with a
// greater key.
func indexAfter[T any](items []T, last string, key func(T) string) int {
	if i := slices.IndexFunc(items, func(item T) bool { return key(item) == last }); i >= 0 {
		return i + 1
	}
	if i := slices.IndexFunc(items, func(item T) bool { return key(item) > last }); i >= 0 {
		return i
	}
	return len(items)
}

func openToken(service *Service, token string, want pageToken) (last string, err error) {
	var got pageToken
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	last, got.Last = got.Last, ""
	if err == nil && got == want {
		return last, nil
	}
	e := &Error{Code: "InvalidNextToken", Message: "The specified token is not valid for this request: " + token,
		Status: http.StatusBadRequest, Err: err}
	if service != nil {
		e.Code = service.badToken
		e.Status = service.statusOf(e.Code)
		switch service {
		case EC2:
			e.Message = fmt.Sprintf("Value ( %s ) for parameter NextToken is invalid. The token is invalid.", token)
		case AutoScaling:
			e.Message = fmt.Sprintf("The token '%s' was invalid", token)
		}
	}
	return "", e
}

// NextToken returns a page token for an operation that finds its place by the position of the last item that was given,
// or looked at. Like those of [Page] it holds a hash of the other parameters.
func NextToken(ctx context.Context, position string) (*string, error) {
	c := callFrom(ctx)
	text, err := json.Marshal(pageToken{Version: pageTokenVersion, Operation: c.service.SigningName + ":" + c.operation,
		Filters: fingerprint(c.input, true), Last: position})
	if err != nil {
		return nil, fmt.Errorf("page token: %w", err)
	}
	token := base64.RawURLEncoding.EncodeToString(text)
	return &token, nil
}

// TokenPosition returns the position in a page token of NextToken, or the error of the service for one of another
// request.
func TokenPosition(ctx context.Context, token string) (string, error) {
	c := callFrom(ctx)
	return openToken(c.service, token, pageToken{Version: pageTokenVersion,
		Operation: c.service.SigningName + ":" + c.operation, Filters: fingerprint(c.input, true)})
}

// pageMembers are the members that say which page is wanted, in all services.
var pageMembers = map[string]bool{
	"NextToken": true, "Marker": true, "MaxResults": true, "MaxItems": true, "MaxRecords": true, "PageSize": true,
	"Limit": true,
}

// tokenMembers are the members that say which attempt it is, in all services.
var tokenMembers = map[string]bool{"ClientToken": true, "ClientRequestToken": true, "IdempotencyToken": true}

// fingerprint returns a hash of an input: of what is asked, without the members that say which page of it (paging) or
// which attempt it is.
func fingerprint(input any, paging bool) string {
	if input == nil {
		return ""
	}
	v := reflect.Indirect(reflect.ValueOf(input))
	h := sha256.New()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || paging && pageMembers[f.Name] || !paging && tokenMembers[f.Name] || v.Field(i).IsZero() {
			continue
		}
		// Unions lose their variant's name in plain JSON, but keep the variant's content; maps are sorted.
		text, err := json.Marshal(v.Field(i).Interface())
		if err != nil {
			text = fmt.Appendf(nil, "%v", v.Field(i).Interface())
		}
		fmt.Fprintf(h, "%s=%s\n", strings.ToLower(f.Name), text)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}
