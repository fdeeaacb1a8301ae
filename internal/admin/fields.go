package admin

import (
	"context"
	"net/http"

	"github.com/coracle-eks/coracle/internal/fields"
)

// Fields asks for an object with its owners, and what an add-on would change of it.
func (c *Client) Fields(ctx context.Context, q fields.Question) (a fields.Answer, err error) {
	return a, c.callJSON(ctx, http.MethodPost, "/fields", q, &a)
}
