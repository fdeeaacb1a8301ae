package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

const (
	// resolveTime is the time within which an endpoint has to answer all questions about a request.
	resolveTime = 10 * time.Second
	// maxResolved is the maximum size in bytes of an answer.
	maxResolved = 256 << 10
)

// asker sends a request of Coracle's own to the endpoint. It returns the answer, or the code of the endpoint's error.
type asker func(context.Context, *call) (answer []byte, code string, err error)

// resolve asks the endpoint about what a request names. The request has no turn of the account while it waits.
func (f *Forwarder) resolve(r *wire.Forwarded, e Endpoint, c *call, at access) error {
	if err := r.BeginTransfer(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), resolveTime)
	defer cancel()
	err := c.resolve(ctx, func(ctx context.Context, question *call) ([]byte, string, error) {
		return f.ask(ctx, e, question, at)
	})
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	return err
}

// ask carries out a call of a service whose requests are JSON.
func (f *Forwarder) ask(ctx context.Context, e Endpoint, c *call, at access) (answer []byte, code string, err error) {
	to := &url.URL{Scheme: e.URL.Scheme, Host: e.URL.Host, Path: c.path}
	out, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), nil)
	if err != nil {
		return nil, "", err
	}
	copyHeaders(out.Header, nil, c.header, false)
	if err := at.sign(ctx, out, setJSON(out, c.body), e); err != nil {
		return nil, "", err
	}
	response, err := f.transport.RoundTrip(out)
	if err != nil {
		return nil, "", f.unavailable(ctx, e, err)
	}
	defer response.Body.Close()
	if err := f.checkCredentials(ctx, e, response); err != nil {
		return nil, "", err
	}
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxResolved+1))
	switch {
	case err != nil:
		return nil, "", f.unavailable(ctx, e, err)
	case len(answer) > maxResolved:
		return nil, "", unusable(e.Service.Name, c.operation, "is too long")
	case response.StatusCode == http.StatusOK:
		return answer, "", nil
	}
	if code = codeIn(answer); code == "" {
		return nil, "", unusable(e.Service.Name, c.operation, "is an error without a code: "+response.Status)
	}
	return nil, code, nil
}

// unusable returns the error for an endpoint whose answer to a question does not say what the service's does.
func unusable(service, operation, why string) error {
	return &wire.Error{Code: "ServiceUnavailable", Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(
		"Coracle asks the endpoint to which it forwards requests for %s what they are about, and the answer to %s %s",
		service, operation, why)}
}

// hideResolved has the refusal of a request say what the client named, not which it is at the endpoint.
func (c *call) hideResolved(err error) error {
	var denied *wire.Denied
	if errors.As(err, &denied) {
		if named, ok := c.resolved[denied.Resource]; ok {
			hidden := *denied
			hidden.Resource = named
			return &hidden
		}
	}
	return err
}
