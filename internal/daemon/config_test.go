package daemon

import (
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/datadir"
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
