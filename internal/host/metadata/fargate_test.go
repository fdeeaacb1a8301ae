//go:build linux

package metadata

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestFargate asks from the address of a Fargate machine, which its pod has, too.
func TestFargate(t *testing.T) {
	t.Parallel()
	w := newRows(t)
	const role = "arn:aws:iam::111122223333:role/pods"
	w.change(func(i *record.Instance) {
		i.Fargate = &record.FargateMachine{NodeName: "fargate-ip-10-0-0-4.eu-west-1.compute.internal", RoleARN: role}
	})
	s := w.service()
	asked, refused := 0, errors.New("not trusted")
	s.o.FargateCredentials = func(_ context.Context, i record.Instance) (aws.Credentials, error) {
		asked++
		return aws.Credentials{AccessKeyID: "ASIAPODS", SecretAccessKey: "secret", SessionToken: "session", CanExpire: true,
			Expires: w.clock.Now().Add(time.Hour)}, refused
	}
	machine := func(change func(*record.Instance)) record.Instance {
		row, err := record.Instances(w.store).Get(t.Context(), record.EC2Key(account, region, machineID))
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(&row.Value)
		}
		return row.Value
	}
	tokenOf := func(i record.Instance) string {
		token, err := s.FargateToken(i)
		if err != nil || len(token) < 43 {
			t.Fatalf("the token is %q, %v", token, err)
		}
		return token
	}
	ask := func(scheme, method, path string, header ...string) (int, fargateCredentials) {
		r := httptest.NewRequest(method, scheme+"://169.254.169.254"+path, nil)
		r.RemoteAddr = "10.0.0.4:40000"
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		answer := httptest.NewRecorder()
		s.serveRequest(answer, r, record.EC2Key(account, region, "vpc-1"))
		var c fargateCredentials
		_ = json.Unmarshal(answer.Body.Bytes(), &c) // an error has a page
		return answer.Code, c
	}
	do := func(method, path string, header ...string) (int, fargateCredentials) {
		return ask("https", method, path, header...)
	}
	token := tokenOf(machine(nil))
	if again, err := w.service().FargateToken(machine(nil)); err != nil || again != token {
		t.Errorf("another daemon has the token %q, %v", again, err)
	}

	// The pod finds nothing, whatever it asks for.
	for _, path := range []string{"/", "/latest", "/latest/meta-data/", "/latest/meta-data/instance-id",
		"/latest/user-data", "/latest/dynamic/instance-identity/document", "/latest/meta-data/iam/security-credentials/",
		"/latest/api/token", fargatePath, fargatePath + "/", "/fargate", "/fargate/credentials/../credentials"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost} {
			if status, c := do(method, path, "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60"); status != http.StatusNotFound ||
				c.AccessKeyID != "" {
				t.Errorf("%s %s: %d, %+v", method, path, status, c)
			}
		}
	}
	for _, path := range []string{"/", "/latest/meta-data/", "/latest/api/token", fargatePath} {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			if status, c := ask("http", method, path, "Authorization", token, "X-Aws-Ec2-Metadata-Token-Ttl-Seconds",
				"60"); status != http.StatusNotFound || c.AccessKeyID != "" {
				t.Errorf("without TLS, %s %s: %d, %+v", method, path, status, c)
			}
		}
	}
	if status, _ := do(http.MethodGet, "/latest/meta-data/", "Authorization", token); status != http.StatusNotFound {
		t.Errorf("metadata with the token: %d", status)
	}
	session, err := s.secret.newToken(machineID, w.clock.Now().Add(time.Hour).Unix())
	if err != nil {
		t.Fatal(err)
	}
	for name, header := range map[string][]string{
		"no token":           {"Authorization", ""},
		"another one":        {"Authorization", strings.Repeat("x", len(token))},
		"a part of it":       {"Authorization", token[:len(token)-1]},
		"a longer one":       {"Authorization", token + "="},
		"twice":              {"Authorization", token, "Authorization", token},
		"a session token":    {"Authorization", session},
		"that of another":    {"Authorization", tokenOf(machine(func(i *record.Instance) { i.ID = "i-0123456789abcdef1" }))},
		"of another account": {"Authorization", tokenOf(machine(func(i *record.Instance) { i.Account = "444455556666" }))},
		"of a later boot":    {"Authorization", tokenOf(machine(func(i *record.Instance) { i.Boot = 2 }))},
		"through a proxy":    {"Authorization", token, "X-Forwarded-For", "10.0.0.9"},
	} {
		if status, c := do(http.MethodGet, fargatePath, header...); status != http.StatusForbidden || c.AccessKeyID != "" {
			t.Errorf("%s: %d, %+v", name, status, c)
		}
	}
	if asked != 0 {
		t.Errorf("credentials were made %d times", asked)
	}

	// The trust policy of the role does not let Fargate assume it.
	if status, c := do(http.MethodGet, fargatePath, "Authorization", token); status != http.StatusForbidden ||
		c.Code != "AssumeRoleUnauthorizedAccess" || !strings.Contains(c.Message, role) || c.AccessKeyID != "" {
		t.Errorf("without trust: %d, %+v", status, c)
	}
	refused = nil
	want := fargateCredentials{AccessKeyID: "ASIAPODS", SecretAccessKey: "secret", Token: "session",
		Expiration: "2026-11-21T15:00:00Z", RoleARN: role}
	for range 2 {
		if status, c := do(http.MethodGet, fargatePath, "Authorization", token); status != http.StatusOK || c != want {
			t.Errorf("credentials are %d, %+v", status, c)
		}
	}
	if asked != 2 {
		t.Errorf("credentials were made %d times", asked)
	}
	// Those at hand while there can be no others; new ones before the end.
	w.clock.SetTime(w.clock.Now().Add(46 * time.Minute))
	refused = errors.New("not trusted")
	if status, c := do(http.MethodGet, fargatePath, "Authorization", token); status != http.StatusOK || c != want {
		t.Errorf("credentials are %d, %+v", status, c)
	}
	refused = nil
	if _, c := do(http.MethodGet, fargatePath, "Authorization", token); c.Expiration != "2026-11-21T15:46:00Z" {
		t.Errorf("credentials are %+v", c)
	}

	// An instance of the account has no such path, and the others without TLS alone.
	w.change(func(i *record.Instance) { i.Fargate = nil })
	for _, scheme := range []string{"http", "https"} {
		if status, c := ask(scheme, http.MethodGet, fargatePath, "Authorization", token); status == http.StatusOK ||
			c.AccessKeyID != "" {
			t.Errorf("an instance gets %d, %+v by %s", status, c, scheme)
		}
	}
	if status, _ := do(http.MethodGet, "/latest/meta-data/"); status != http.StatusNotFound {
		t.Errorf("an instance gets metadata by TLS: %d", status)
	}
	if status, _ := ask("http", http.MethodGet, "/latest/meta-data/"); status != http.StatusOK {
		t.Errorf("an instance gets %d", status)
	}
}

// TestFargateByTLS asks inside a network, as guests do.
func TestFargateByTLS(t *testing.T) {
	t.Parallel()
	machinetest.Owner(t) // root only
	w := newRows(t)
	authority, err := pki.OpenAuthority(t.TempDir(), "ca", "coracle")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Leaf{CommonName: "metadata", IPs: []net.IP{net.IPv4(169, 254, 169, 254)}, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	w.tls = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	w.change(func(i *record.Instance) {
		i.Fargate = &record.FargateMachine{RoleARN: "arn:aws:iam::111122223333:role/pods"}
	})
	s := w.start()
	row, err := record.Instances(w.store).Get(t.Context(), record.EC2Key(account, region, machineID))
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.FargateToken(row.Value)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM)
	for _, test := range []struct {
		url    string
		roots  *x509.CertPool
		status int // 0: no answer
	}{
		{"https://169.254.169.254" + fargatePath, roots, http.StatusOK},
		{"https://169.254.169.254" + fargatePath, x509.NewCertPool(), 0},
		{"http://169.254.169.254" + fargatePath, roots, http.StatusNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", token)
		client := w.client("machine", "")
		client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: test.roots}
		status := 0
		if answer, err := client.Do(r); err == nil {
			status = answer.StatusCode
			answer.Body.Close()
		}
		if status != test.status {
			t.Errorf("%s: %d, want %d", test.url, status, test.status)
		}
	}
}
