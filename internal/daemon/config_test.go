package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/ami"
	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/forward"
	"github.com/coracle-eks/coracle/internal/kube/servicerole"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

func TestWhatIsChosenHolds(t *testing.T) {
	t.Parallel()
	dir := datadir.Dir(t.TempDir())
	choose := func(c Config) datadir.Settings {
		t.Helper()
		c.Dir = dir
		s, err := c.settings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := dir.WriteSettings(s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := choose(Config{})
	if first.Listen != DefaultListen || first.Region != DefaultRegion || first.Account != DefaultAccount ||
		first.Machines != DefaultMachines || first.UserNamespaces != DefaultUserNamespaces || first.WebhookPort == 0 {
		t.Errorf("the first choice is %+v", first)
	}
	second := choose(Config{Listen: "127.0.0.1:1", Region: "eu-west-1", Machines: "simulated", UserNamespaces: "off"})
	if second.WebhookPort != first.WebhookPort {
		t.Error("the port that API servers know has changed")
	}
	if _, err := (Config{Dir: dir, UserNamespaces: "on"}).settings(t.Context()); err == nil {
		t.Error("user namespaces may be neither auto nor off")
	}
	if third := choose(Config{}); third != second {
		t.Errorf("a start without flags changed %+v to %+v", second, third)
	}
}

func TestRegionsThatDoNotExistAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"mars-1", "US-EAST-1", "us-east-1a", "us-gov-west-1"} {
		if _, err := (Config{Dir: datadir.Dir(t.TempDir()), Region: bad}).settings(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "choose one of") {
			t.Errorf("--region %s: %v", bad, err)
		}
	}
}

// TestNoDaemonHasAccountsOfAmazon has accounts of Amazon's in what an earlier version left. As the daemon's own it does
// not start; one beside it is in nobody's way, and its credentials are refused.
func TestNoDaemonHasAccountsOfAmazon(t *testing.T) {
	t.Parallel()
	const refused = "begin with another data directory (--data-dir)"
	for _, account := range []string{servicerole.Account, "877085696533"} {
		dir := datadir.Dir(t.TempDir())
		if err := dir.WriteSettings(datadir.Settings{Account: account}); err != nil {
			t.Fatal(err)
		}
		if _, err := (Config{Dir: dir}).settings(t.Context()); err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("as the daemon's own: %v", err)
		}
		if _, err := (Config{Dir: datadir.Dir(t.TempDir()), Account: account}).settings(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "an account of Amazon's; choose another") {
			t.Errorf("as the daemon's own at the first start: %v", err)
		}
	}
	var log bytes.Buffer
	d := &daemon{store: storetest.New(t), log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, account := range []string{DefaultAccount, servicerole.Account} {
		if _, err := iamservice.Bootstrap(t.Context(), d.store, account); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // each start
		if err := d.ensureServiceRoles(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); strings.Count(text, "account="+servicerole.Account) != 2 ||
		strings.Contains(text, "account="+DefaultAccount) {
		t.Errorf("the log is %s", text)
	}
}

func TestAdvertiseAddress(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"coracle", ":4566", "coracle:", "http://coracle:4566"} {
		if _, err := (Config{Dir: datadir.Dir(t.TempDir()), AdvertiseAddress: bad}).settings(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "--advertise-address") {
			t.Errorf("--advertise-address %s: %v", bad, err)
		}
	}
	for advertised, want := range map[string]string{
		"":             "http://127.0.0.1:4566",
		Auto:           "http://127.0.0.1:4566",
		"coracle:5000": "http://coracle:5000",
	} {
		if got := AdvertisedURL(datadir.Settings{Listen: "0.0.0.0:4566", AdvertiseAddress: advertised}); got != want {
			t.Errorf("with --advertise-address %q clients are told %s, want %s", advertised, got, want)
		}
	}
}

func TestEndpointURL(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:4566": "http://127.0.0.1:4566",
		"0.0.0.0:80":     "http://127.0.0.1:80",
		":4566":          "http://127.0.0.1:4566",
		"[::]:4566":      "http://127.0.0.1:4566",
		"10.0.0.7:4566":  "http://10.0.0.7:4566",
		"[::1]:4566":     "http://[::1]:4566",
		"host:4566":      "http://host:4566",
	} {
		if got := EndpointURL(listen); got != want {
			t.Errorf("%s is reached at %s, want %s", listen, got, want)
		}
	}
}

func TestForward(t *testing.T) {
	t.Parallel()
	dir := datadir.Dir(t.TempDir())
	choose := func(forward string) (datadir.Settings, error) {
		s, err := Config{Dir: dir, Listen: "0.0.0.0:4566", Forward: forward}.settings(t.Context())
		if err == nil {
			err = dir.WriteSettings(s)
		}
		return s, err
	}
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(dir.ForwardCredentialsFile(), []byte(text), mode),
			os.Chmod(dir.ForwardCredentialsFile(), mode)); err != nil {
			t.Fatal(err)
		}
	}
	const s3, keys = "s3=http://127.0.0.1:9000", "\naws_access_key_id = a\naws_secret_access_key = b\n"
	refused := func(forward, want string) {
		t.Helper()
		if _, err := choose(forward); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--forward %s: %v, want %q", forward, err, want)
		}
	}
	refused(s3, "[s3] of "+dir.ForwardCredentialsFile())
	write("[s3]"+keys, 0o644)
	refused(s3, "chmod 600")
	write("[s3]\naws_access_key_id = a\n", 0o600)
	refused(s3, "aws_secret_access_key")
	write("[s3]\nendpoint = x\n", 0o600)
	refused(s3, `unknown name "endpoint"`)
	write("[dynamodb]"+keys, 0o600)
	refused(s3, "[s3]")
	write("[default]"+keys+"[s3.444455556666]\nregion = eu-west-1"+keys, 0o600)
	for _, own := range []string{"s3=http://127.0.0.1:4566", "s3=http://localhost:4566", "s3=http://[::1]:4566"} {
		refused(own, "that is this daemon")
	}
	for _, test := range []struct{ forward, want string }{
		{s3, s3}, {"", s3}, {s3 + ",dynamodb=http://127.0.0.1:8000", s3 + ",dynamodb=http://127.0.0.1:8000"}, {none, ""},
	} {
		if s, err := choose(test.forward); err != nil || s.Forward != test.want {
			t.Errorf("--forward %q: %q, %v", test.forward, s.Forward, err)
		}
	}
	d := &daemon{dir: dir, settings: datadir.Settings{Account: DefaultAccount}}
	if c, region, err := d.forwardCredentials("s3", DefaultAccount); err != nil || c.AccessKeyID != "a" || region != "" {
		t.Errorf("the first account has %v in %q, %v", c, region, err)
	}
	if c, region, err := d.forwardCredentials("s3", "444455556666"); err != nil || c.SecretAccessKey != "b" ||
		region != "eu-west-1" {
		t.Errorf("another account has %v in %q, %v", c, region, err)
	}
	var none *forward.NoCredentialsError
	if _, _, err := d.forwardCredentials("dynamodb", "444455556666"); !errors.As(err, &none) {
		t.Errorf("an account that has none gets %v", err)
	}
}

// TestAccountsOfEKSAreNobodys refuses the accounts that Amazon itself has: of EKS's users, of its network interfaces,
// of its images in each region, and of machine images.
func TestAccountsOfEKSAreNobodys(t *testing.T) {
	t.Parallel()
	for account, ours := range map[string]bool{
		"111122223333": true, servicerole.Account: false, record.EKSAccount: false, "877085696533": false,
		"533267051163": false, ami.BottlerocketOwner: false, ami.AmazonOwner: false, "1234": false,
	} {
		if err := CheckAccount(account); (err == nil) != ours {
			t.Errorf("%s: %v", account, err)
		}
	}
}
