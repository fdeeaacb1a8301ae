package forward

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/json"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// operationOf returns the operation of a request whose input is JSON, which is one of a service of the API.
func operationOf(r *wire.Forwarded, prefixes ...string) (string, error) {
	target := r.Header.Get("X-Amz-Target")
	for _, prefix := range prefixes {
		if name, ok := strings.CutPrefix(target, prefix+"."); ok && r.Method == http.MethodPost &&
			len(r.Header.Values("X-Amz-Target")) == 1 {
			return name, nil
		}
	}
	return "", &wire.Error{Code: "UnknownOperationException", Status: http.StatusBadRequest,
		Message: fmt.Sprintf("The operation %q is none of the service's.", target)}
}

// readBody reads the members of a JSON body that a structure has, and returns the body: one valid JSON object with
// nothing behind it, as escapedJSON needs it.
func readBody(r *wire.Forwarded, into any) ([]byte, error) {
	body := r.Body
	if len(body) == 0 {
		return []byte("{}"), nil
	}
	if err := wire.CheckValues(body); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) || !utf8.Valid(body) {
		return nil, unreadableBody("it is not a JSON object")
	}
	if err := readMembers(body, into); err != nil {
		return nil, err
	}
	return body, nil
}

// readMembers reads the members of a JSON object that a structure has. A member that is there twice, or in other case
// beside it, is refused: the endpoint might read the other one.
func readMembers(object []byte, into any) error {
	strict, err := json.UnmarshalStrict(object, into, json.DisallowDuplicateFields)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	var members map[string]stdjson.RawMessage
	if err == nil {
		err = json.UnmarshalCaseSensitivePreserveInts(object, &members)
	}
	read := reflect.TypeOf(into).Elem()
	for i := range read.NumField() {
		known := cmp.Or(read.Field(i).Tag.Get("json"), read.Field(i).Name)
		for name := range members {
			if err == nil && name != known && strings.EqualFold(name, known) {
				err = fmt.Errorf("the member %q is not %q", name, known)
			}
		}
	}
	if err != nil {
		return unreadableBody(err.Error())
	}
	return nil
}

func unreadableBody(why string) error {
	return &wire.Error{Code: "SerializationException", Status: http.StatusBadRequest,
		Message: "The request body could not be read: " + why}
}

// jsonCall returns the call of an operation whose input is JSON. Its body is one of readBody, or of Coracle's own.
func jsonCall(protocol wire.Protocol, target string, body []byte) *call {
	content := "application/x-amz-json-1.0"
	if protocol == wire.AWSJSON11 {
		content = "application/x-amz-json-1.1"
	}
	_, operation, _ := strings.Cut(target, ".")
	return &call{operation: operation, path: "/", body: body,
		header: map[string]string{"Content-Type": content, "X-Amz-Target": target}}
}

// querySyntax are the characters that have a meaning in queries.
const querySyntax = "&;=%<>"

// escapedJSON reads a JSON text with the characters of querySyntax escaped. They stand in strings alone, whose values
// stay the same. Some endpoints take a body for a query first, and operations and names from it.
type escapedJSON struct{ rest []byte }

// newEscapedJSON returns a reader of a body and the number of bytes that it reads. It takes no memory for them: they
// may be six times the body.
func newEscapedJSON(body []byte) (io.Reader, int64) {
	length := int64(len(body))
	for _, c := range body {
		if strings.IndexByte(querySyntax, c) >= 0 {
			length += int64(len(`\u0026`)) - 1
		}
	}
	return bufio.NewReader(&escapedJSON{body}), length // which asks for more than an escape
}

func (e *escapedJSON) Read(b []byte) (n int, err error) {
	if len(e.rest) == 0 {
		return 0, io.EOF
	}
	for len(e.rest) > 0 && n+len(`\u0026`) <= len(b) {
		if c := e.rest[0]; strings.IndexByte(querySyntax, c) >= 0 {
			n += copy(b[n:], `\u00`+string(upperHex[c>>4])+string(upperHex[c&15]))
		} else {
			b[n] = c
			n++
		}
		e.rest = e.rest[1:]
	}
	return n, nil
}

// setJSON gives a request a JSON body, and returns its hash.
func setJSON(out *http.Request, body []byte) string {
	read, length := newEscapedJSON(body)
	sum := sha256.New()
	_, _ = io.Copy(sum, read) // neither fails
	out.ContentLength = length
	out.GetBody = func() (io.ReadCloser, error) {
		read, _ := newEscapedJSON(body)
		return io.NopCloser(read), nil
	}
	out.Body, _ = out.GetBody()
	return hex.EncodeToString(sum.Sum(nil))
}

// targetsOn returns the targets of an action on resources of the caller's account; on everything without any. unread
// is as in [wire.Target].
func targetsOn(r *wire.Forwarded, action string, conditions map[string][]string, unread func(string) bool,
	resources ...string) (all []wire.Target) {
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	conditions = maps.Clone(conditions)
	if conditions == nil {
		conditions = map[string][]string{}
	}
	conditions["aws:ResourceAccount"] = []string{wire.CallerFrom(r.Context()).Account}
	for _, resource := range resources {
		all = append(all, wire.Target{Action: action, Resource: resource, Conditions: conditions, Unread: unread})
	}
	return all
}

// isTagKey reports whether a condition key is about tags, which the endpoint alone knows, or a body has that is not
// read.
func isTagKey(key string) bool {
	key = strings.ToLower(key)
	return strings.HasPrefix(key, "aws:resourcetag/") || strings.HasPrefix(key, "aws:requesttag/") || key == "aws:tagkeys"
}

// unreadKeys returns what reports whether the value of a condition key is not known: one of a service's but known, in
// lower case, or one about tags.
func unreadKeys(service string, known ...string) func(string) bool {
	return func(key string) bool {
		key = strings.ToLower(key)
		return isTagKey(key) || strings.HasPrefix(key, service+":") && !slices.Contains(known, key)
	}
}

// badName returns the error for a name that the service does not have.
func badName(what, name string) error {
	return &wire.Error{Code: "ValidationException", Status: http.StatusBadRequest,
		Message: fmt.Sprintf("%q is not a valid %s.", name, what)}
}

// notOurs returns the error for an ARN that is none of the caller's account and the request's region. Endpoints read
// the name in it alone.
func notOurs(arn string) error {
	return refuse("requests for what others have, or other regions: %s", arn)
}

// arnOf returns the ARN of a resource of the caller's account and region.
func arnOf(r *wire.Forwarded, service, resource string) string {
	ctx := r.Context()
	return "arn:aws:" + service + ":" + wire.RegionFrom(ctx) + ":" + wire.CallerFrom(ctx).Account + ":" + resource
}
