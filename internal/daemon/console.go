package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/console"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// newConsole returns the console.
func (d *daemon) newConsole() *console.Console {
	addresses := []string{d.settings.Listen}
	if name, err := os.Hostname(); err == nil {
		addresses = append(addresses, name)
	}
	anyAddress := d.settings.AdvertiseAddress == Auto
	if !anyAddress && d.settings.AdvertiseAddress != "" {
		addresses = append(addresses, d.settings.AdvertiseAddress)
	}
	return console.New(console.Options{
		Region:      d.settings.Region,
		ServedUnder: console.ServedUnder(anyAddress, addresses...),
		Credentials: d.consoleCredentials,
		Account: func(ctx context.Context, token, cluster string) (account string, refused bool, err error) {
			caller, refused, err := d.clusters.authenticator.Caller(ctx, token, cluster)
			return caller.AccountID, refused, err
		},
		Clusters:   record.Clusters(d.store),
		APIServers: d.apiServers,
		Log:        d.log,
	})
}

// consoleCredentials returns what a sign-in to the console acts with: credentials of the root user of an account, which
// end with its access key.
func (d *daemon) consoleCredentials(ctx context.Context, account string) (console.Credentials, error) {
	all, err := d.dir.ReadCredentials()
	if err != nil {
		return console.Credentials{}, err
	}
	root, ok := all[account]
	if !ok {
		return console.Credentials{}, fmt.Errorf("account %s has no root access key in %s", account,
			d.dir.CredentialsFile())
	}
	c, err := d.api.identity.ConsoleCredentials(ctx, account, root.AccessKeyID)
	return console.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey,
		SessionToken: c.SessionToken, Expiration: c.Expires}, err
}

// serveConsole serves the console beside the AWS APIs. A request that is signed for a service which is forwarded, such
// as one for a bucket of the name "console", is the forwarder's.
func (d *daemon) serveConsole(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if console.Serves(r) && d.api.forwarder.Find(r) == nil {
			d.console.ServeHTTP(w, r.WithContext(store.Bounded(r.Context(), mostRead)))
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// ConsoleLink makes a link that signs in to the console once. The error of an account that is not there is an
// *admin.Refused.
func (c *commands) ConsoleLink(ctx context.Context, account string) (admin.ConsoleLink, error) {
	account = cmp.Or(account, c.d.settings.Account)
	accounts, err := c.d.api.accounts(ctx)
	if err != nil {
		return admin.ConsoleLink{}, err
	}
	if !slices.Contains(accounts, account) {
		return admin.ConsoleLink{}, &admin.Refused{Reason: fmt.Sprintf("there is no account %s; there are %s: make it "+
			"with \"coracle account create %s\"", account, strings.Join(accounts, ", "), account)}
	}
	code, expires := c.d.console.CreateCode(account)
	return admin.ConsoleLink{URL: AdvertisedURL(c.d.settings) + console.Prefix + "#code=" + code, Expires: expires}, nil
}
