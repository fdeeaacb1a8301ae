package daemon

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/console"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/originguard"
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
		ServedUnder: console.ServedUnder(anyAddress, addresses...), PublishedPort: anyAddress,
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

// serveConsole serves the console beside all else of the AWS endpoint, which may have come from anybody: nothing of
// that is below the console's path, and none of it acts for the origin. Where the console is not served, under names of
// Amazon S3 that lead to this host, what is signed for a forwarded service is the forwarder's: a key may begin with
// "console/".
func (d *daemon) serveConsole(handler http.Handler) http.Handler {
	handler = originguard.Handler(handler)
	refused := originguard.Handler(http.HandlerFunc(refuseBucket))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !console.Serves(r) {
			handler.ServeHTTP(w, r)
			return
		}
		switch forwarded, served := d.api.forwarder.Find(r) != nil, d.console.ServedUnder(r.Host); {
		case forwarded && served:
			refused.ServeHTTP(w, r)
		case forwarded:
			handler.ServeHTTP(w, r)
		default:
			d.console.ServeHTTP(w, r.WithContext(store.Bounded(r.Context(), mostRead)))
		}
	})
}

// refuseBucket answers a request for a bucket whose path is the console's.
func refuseBucket(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusBadRequest)
	io.WriteString(w, "<Error><Code>InvalidBucketName</Code><Message>The path of the bucket \"console\" is that of "+ //nolint:errcheck
		"Coracle's console. Name the bucket in the host, as in console.s3.us-east-1.amazonaws.com, or choose another "+
		"name.</Message></Error>")
}

// codeFragment begins the fragment of a link that signs in.
const codeFragment = "#code="

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
	return admin.ConsoleLink{URL: consoleURL(c.d.settings) + codeFragment + code, Expires: expires}, nil
}

// consoleURL returns the URL of the console, with TLS where others may read along.
func consoleURL(s datadir.Settings) string {
	address := strings.TrimPrefix(AdvertisedURL(s), "http://")
	if console.IsLoopback(address) {
		return "http://" + address + console.Prefix
	}
	return "https://" + address + console.Prefix
}

// AwaitConsoleLink waits until a link has been used, or ctx ends.
func (c *commands) AwaitConsoleLink(ctx context.Context, l admin.ConsoleLink) error {
	_, code, _ := strings.Cut(l.URL, codeFragment)
	return c.d.console.AwaitCode(ctx, code)
}
