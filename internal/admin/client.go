package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
)

// Client sends commands to the daemon that listens on a socket.
type Client struct{ http http.Client }

// NewClient does not connect yet.
func NewClient(socket string) *Client {
	return &Client{http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			address, done, err := reachable(socket)
			if err != nil {
				return nil, err
			}
			defer done()
			return (&net.Dialer{}).DialContext(ctx, "unix", address)
		},
	}}}
}

// sendJSON returns the answer to a command whose status is 200. Where nobody listens the error is ErrNotRunning.
func (c *Client) sendJSON(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var b bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&b).Encode(body); err != nil {
			return nil, err
		}
	}
	return c.sendRequest(ctx, method, path, &b)
}

// sendRequest is like do, with a body as it is.
func (c *Client) sendRequest(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://coracle"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		var f failure
		if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&f); err != nil {
			return nil, fmt.Errorf("the daemon answered %s", resp.Status)
		}
		if resp.StatusCode == http.StatusBadRequest {
			return nil, &Refused{f.Error}
		}
		return nil, errors.New(f.Error)
	}
	return resp, nil
}

func (c *Client) callJSON(ctx context.Context, method, path string, body, answer any) error {
	resp, err := c.sendJSON(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(answer)
}

// Status asks how the daemon is.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.callJSON(ctx, http.MethodGet, "/status", nil, &s)
}

// Ping returns nil once the daemon takes commands.
func (c *Client) Ping(ctx context.Context) error {
	return c.callJSON(ctx, http.MethodGet, "/ping", nil, &struct{}{})
}

// Stop asks the daemon to end. It returns before it has.
func (c *Client) Stop(ctx context.Context) error {
	return c.callJSON(ctx, http.MethodPost, "/stop", nil, &struct{}{})
}

// CreateAccount makes an account.
func (c *Client) CreateAccount(ctx context.Context, account string) (a Account, err error) {
	return a, c.callJSON(ctx, http.MethodPost, "/accounts", Account{Account: account}, &a)
}

// Interrupt gives a spot instance notice that it is taken away.
func (c *Client) Interrupt(ctx context.Context, instance string) (i Interruption, err error) {
	return i, c.callJSON(ctx, http.MethodPost, "/interruptions", Interruption{Instance: instance}, &i)
}

// Backup writes the archive to w, with the content of volumes and snapshots if they are wanted. It returns a list of
// those whose content could not be copied; empty when there are none.
func (c *Client) Backup(ctx context.Context, w io.Writer, volumes bool) (missing string, err error) {
	path := "/backup"
	if volumes { // a path of its own: an earlier daemon is not to leave them out in silence
		path += "/volumes"
	}
	resp, err := c.sendJSON(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return "", fmt.Errorf("the daemon broke off the backup: %w", err)
	}
	return resp.Trailer.Get(missingTrailer), nil
}
