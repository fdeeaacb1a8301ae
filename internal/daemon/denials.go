package daemon

import (
	"cmp"
	"context"
	"slices"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/inspect"
)

// Denials returns what policies refused in an account.
func (c *commands) Denials(ctx context.Context, account string) ([]admin.Denial, error) {
	account = cmp.Or(account, c.d.settings.Account)
	accounts, err := c.d.api.accounts(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(accounts, account) {
		return nil, &admin.Refused{Reason: "there is no account " + account}
	}
	all := []admin.Denial{}
	for _, d := range c.d.api.identity.Denials(account) {
		all = append(all, inspect.DescribeDenial(d))
	}
	return all, nil
}
