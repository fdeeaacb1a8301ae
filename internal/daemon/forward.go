package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/forward"
)

// checkForwards returns an error for endpoints to which nothing can be forwarded: it would show with the first request.
func checkForwards(dir datadir.Dir, s datadir.Settings) error {
	endpoints, err := parseForwards(s)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if isOwnAddress(e.URL, s.Listen) {
			return fmt.Errorf("%q: that is this daemon", e)
		}
		if _, err := dir.ReadForwardCredentials(e.Service.Name, s.Account, true); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%q: requests are signed for the endpoint with its own credentials: %s", e,
				forwardRemedy(dir, e.Service.Name))
		} else if err != nil {
			return fmt.Errorf("%q: %w", e, err)
		}
	}
	return nil
}

func parseForwards(s datadir.Settings) ([]forward.Endpoint, error) {
	return forward.Parse(strings.FieldsFunc(s.Forward, func(r rune) bool { return r == ',' || r == ' ' }))
}

// forwardRemedy returns what to do where the credentials of an endpoint are missing.
func forwardRemedy(dir datadir.Dir, section string) string {
	return fmt.Sprintf("write aws_access_key_id and aws_secret_access_key to the section [%s] of %s (mode 0600)", section,
		dir.ForwardCredentialsFile())
}

// isOwnAddress reports whether a URL leads to the daemon itself, which would forward a request again and again.
func isOwnAddress(u *url.URL, listen string) bool {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || u.Port() != port {
		return false
	}
	local := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
	}
	return strings.EqualFold(u.Hostname(), host) || local(u.Hostname()) && local(host)
}

// openForwarder returns what forwards the requests of services that the operator has endpoints for.
func (d *daemon) openForwarder(mux *wire.Mux) (*forward.Forwarder, error) {
	endpoints, err := parseForwards(d.settings)
	if err != nil {
		return nil, fmt.Errorf("forward in %s: %w", d.dir.SettingsFile(), err)
	}
	return forward.New(forward.Options{Mux: mux, Endpoints: endpoints, Credentials: d.forwardCredentials, Log: d.log}), nil
}

// forwardCredentials returns the credentials of an account at the endpoint of a service. They are read for each
// request, so that they can be rotated.
func (d *daemon) forwardCredentials(service, account string) (aws.Credentials, string, error) {
	c, err := d.dir.ReadForwardCredentials(service, account, account == d.settings.Account)
	if errors.Is(err, fs.ErrNotExist) {
		return aws.Credentials{}, "", &forward.NoCredentialsError{Remedy: fmt.Sprintf("the operator can give it some "+
			"in the section [%s.%s] of forward-credentials", service, account)}
	}
	return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken},
		c.Region, err
}

// forwards reports whether requests of a service are forwarded.
func forwards(s datadir.Settings, service string) bool {
	endpoints, err := parseForwards(s)
	return err == nil && slices.ContainsFunc(endpoints, func(e forward.Endpoint) bool { return e.Service.Name == service })
}
