package admin

import (
	"context"
	"net/http"
	"time"
)

// consoleRequest asks for a link to the console.
type consoleRequest struct {
	Account string `json:"account,omitempty"` // empty for that of the daemon
}

// ConsoleLink is a link that signs in to the console once.
type ConsoleLink struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires"`
}

// ConsoleLink asks for a link that signs in to the console as the root user of an account, which is that of the daemon
// when empty.
// The error of an account that is not there is a *[Refused].
func (c *Client) ConsoleLink(ctx context.Context, account string) (l ConsoleLink, err error) {
	return l, c.callJSON(ctx, http.MethodPost, "/console", consoleRequest{Account: account}, &l)
}

// AwaitConsoleLink waits until a link has been used, or ctx ends.
func (c *Client) AwaitConsoleLink(ctx context.Context, l ConsoleLink) error {
	return c.callJSON(ctx, http.MethodPost, "/console/await", l, &struct{}{})
}
