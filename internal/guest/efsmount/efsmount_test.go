//go:build linux

package efsmount

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/guest/imds"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, args string
		host       string
		path       string
		passed     string
		flags      uintptr
	}{
		{"an ID", "fs-0123456789abcdef0 /mnt", "fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com", "/", "", 0},
		{"a directory", "fs-0123456789abcdef0:/a/b /mnt", "fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com", "/a/b", "", 0},
		{"a zone", "fs-0123456789abcdef0:/ /mnt -o az=eu-west-1b", "eu-west-1b.fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com",
			"/", "", 0},
		{"a DNS name", "eu-west-1a.fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com:/ /mnt -o az=eu-west-1a",
			"eu-west-1a.fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com", "/", "", 0},
		{"all that the CSI driver says", "fs-0123456789abcdef0:/ /mnt -o rw,accesspoint=fsap-0123456789abcdef0,tls,iam",
			"fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com", "/", "", 0},
		{"fstab", "fs-0123456789abcdef0:/ /mnt -n -v -o _netdev,noresvport,ro,nosuid,noatime,nofail,x-systemd.automount",
			"fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com", "/", "_netdev,noresvport,x-systemd.automount",
			readOnly | noSUID | noATime},
		{"the last one counts", "fs-0123456789abcdef0:/ /mnt -o ro,rw -o hard,timeo=600",
			"fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com", "/", "hard,timeo=600", 0},
		{"those of stunnel", "fs-0123456789abcdef0:/ /mnt -o tls,tlsport=20100,verify=0,noocsp,cafile=/x,stunnel",
			"fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com", "/", "", 0},
	} {
		r, err := parse(strings.Fields(test.args))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := r.dnsName("eu-west-1"); got != test.host || r.path != test.path {
			t.Errorf("%s: %s:%s, want %s:%s", test.name, got, r.path, test.host, test.path)
		}
		if got := strings.Join(r.passed(), ","); got != test.passed || r.mountFlags() != test.flags {
			t.Errorf("%s: options %q and flags %#x, want %q and %#x", test.name, got, r.mountFlags(), test.passed, test.flags)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const ok = "fs-0123456789abcdef0:/ /mnt -o "
	for args, says := range map[string]string{
		"":                                  "usage",
		"fs-0123456789abcdef0":              "usage",
		"fs-0123456789abcdef0 /mnt -o":      "-o",
		"fs-0123456789abcdef0 /mnt --bogus": "--bogus",
		"example.com:/ /mnt":                "example.com",
		"10.0.0.5:/ /mnt":                   "10.0.0.5",
		ok + "iam":                          `The "tls" option is required when mounting via "iam"`,
		ok + "accesspoint=fsap-1":           `The "tls" option is required when mounting via "accesspoint"`,
		ok + "tls,accesspoint=fsap-1":       "Access Point ID fsap-1 is malformed",
		ok + "tls,awsprofile=x":             `The "iam" option is required`,
		ok + "tls,iam,awscredsuri=x":        "awscredsuri x is malformed",
		ok + "tls,iam,awscredsuri=/x":       "",
		ok + "tls,port=2049":                "mutually exclusive",
		ok + "tls,notls":                    "mutually exclusive",
		ok + "tls,ocsp,noocsp":              "mutually exclusive",
		ok + "tls,iam,rolearn=x":            "jwtpath",
		ok + "capath=/x":                    "capath",
		ok + "crossaccount":                 "crossaccount",
		ok + "netns=/proc/1/ns/net":         "netns",
		"-N /proc/1/ns/mnt fs-1:/ /mnt":     "mount namespace",
		"eu-west-1a.fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com:/ /mnt -o az=eu-west-1b": "",
	} {
		_, err := parse(strings.Fields(args))
		if says == "" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want an error that says %q", args, err, says)
		}
	}
}

// run calls mount.efs with the given arguments, and returns what it calls mount(2) with.
func run(t *testing.T, s source, args string) (called []string, flags uintptr, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/latest/api/token":
			_, _ = w.Write([]byte("token"))
		case "/latest/dynamic/instance-identity/document":
			_, _ = w.Write([]byte(`{"region":"eu-west-1"}`))
		case "/latest/meta-data/iam/security-credentials/":
			_, _ = w.Write([]byte("role"))
		case "/latest/meta-data/iam/security-credentials/role":
			_, _ = w.Write([]byte(`{"Code":"Success","AccessKeyId":"ASIAOFROLE","SecretAccessKey":"secret","Token":"token"}`))
		case "/container":
			if r.Header.Get("Authorization") != "proof" {
				http.Error(w, "no proof", http.StatusForbidden)
				return
			}
			_, _ = w.Write([]byte(`{"AccessKeyId":"ASIAOFPOD","SecretAccessKey":"secret","Token":"token"}`))
		case "/sts":
			if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("WebIdentityToken") != "proof" {
				http.Error(w, "no proof", http.StatusForbidden)
				return
			}
			_, _ = w.Write([]byte(`{"AssumeRoleWithWebIdentityResponse":{"AssumeRoleWithWebIdentityResult":{"Credentials":` +
				`{"AccessKeyId":"ASIAOFACCOUNT","SecretAccessKey":"secret","SessionToken":"token"}}}}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	m := mounter{imds: &imds.Client{Endpoint: server.URL},
		lookup: func(_ context.Context, host string) ([]string, error) {
			if strings.Contains(host, "fs-00000000000000000") {
				return nil, os.ErrNotExist
			}
			return []string{"10.0.1.5"}, nil
		},
		mount: func(source, target, kind string, f uintptr, data string) error {
			called, flags = []string{source, target, kind, data}, f
			return nil
		}}
	r, err := parse(strings.Fields(args))
	if err != nil {
		t.Fatal(err)
	}
	s.imds, s.client, s.endpoint = m.imds, server.Client(), server.URL+"/sts"
	env := s.env
	s.env = func(name string) string {
		if env == nil {
			return ""
		}
		return strings.ReplaceAll(env(name), "SERVER", server.URL)
	}
	err = m.run(t.Context(), r, s)
	return called, flags, err
}

func TestMount(t *testing.T) {
	t.Parallel()
	called, flags, err := run(t, source{}, "fs-0123456789abcdef0:/a /mnt -o ro,tls,accesspoint=fsap-0123456789abcdef0,hard")
	want := "fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com:/a /mnt efs addr=10.0.1.5,hard,tls,accesspoint=fsap-0123456789abcdef0"
	if got := strings.Join(called, " "); err != nil || got != want || flags != readOnly {
		t.Errorf("mount %q, %#x, %v, want %q", got, flags, err, want)
	}
	called, _, err = run(t, source{}, "fs-0123456789abcdef0 /mnt -o mounttargetip=10.9.9.9,region=eu-north-1")
	want = "fs-0123456789abcdef0.efs.eu-north-1.amazonaws.com:/ /mnt efs addr=10.9.9.9"
	if got := strings.Join(called, " "); err != nil || got != want {
		t.Errorf("mount %q, %v, want %q", got, err, want)
	}
	for args, says := range map[string]string{
		"fs-00000000000000000 /mnt":                              `Failed to resolve "fs-00000000000000000.efs.`,
		"fs-0123456789abcdef0 /mnt -o fast":                      `"fast" is no option`,
		"fs-0123456789abcdef0 /mnt -o vers=3":                    "4.1",
		"fs-0123456789abcdef0 /mnt -o mounttargetip=none":        "no IP address",
		"fs-0123456789abcdef0 /mnt -o tls,iam,awsprofile=nobody": "named profile [nobody]",
	} {
		if called, _, err := run(t, source{home: t.TempDir()}, args); err == nil || !strings.Contains(err.Error(), says) ||
			called != nil {
			t.Errorf("%q: %q, %v, want an error that says %q", args, called, err, says)
		}
	}
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	proof := filepath.Join(home, "proof")
	for name, text := range map[string]string{
		"proof": "proof\n",
		".aws/credentials": "[work]\naws_access_key_id = AKIAOFWORK\naws_secret_access_key = secret\n" +
			"[other]\naws_access_key_id = x\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		options string
		env     map[string]string
		key     string
	}{
		"the instance's role": {"", nil, "ASIAOFROLE"},
		"a profile":           {",awsprofile=work", nil, "AKIAOFWORK"},
		"EKS Pod Identity": {"", map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "SERVER/container",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": proof}, "ASIAOFPOD"},
		"a service account": {"", map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/r",
			"AWS_WEB_IDENTITY_TOKEN_FILE": proof}, "ASIAOFACCOUNT"},
		"a role and a token": {",rolearn=arn:aws:iam::111122223333:role/r,jwtpath=" + proof, nil, "ASIAOFACCOUNT"},
	} {
		called, _, err := run(t, source{home: home, env: func(key string) string { return test.env[key] }},
			"fs-0123456789abcdef0 /mnt -o tls,iam"+test.options)
		if err != nil || len(called) != 4 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, encoded, _ := strings.Cut(called[3], "connect=")
		query := decode(t, encoded)
		if got, _, _ := strings.Cut(query.Get("X-Amz-Credential"), "/"); got != test.key || query.Get("Action") != "Connect" {
			t.Errorf("%s: the client is %s, want %s", name, got, test.key)
		}
	}
}

func decode(t *testing.T, encoded string) url.Values {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	query, err := url.ParseQuery(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return query
}

func TestSign(t *testing.T) {
	t.Parallel()
	query, err := sign(t.Context(), aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret", SessionToken: "token"},
		"eu-west-1", "fs-0123456789abcdef0", time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"Action": "Connect", "X-Amz-Expires": "300", "X-Amz-SignedHeaders": "host",
		"X-Amz-Credential": "AKIA/20010909/eu-west-1/elasticfilesystem/aws4_request", "X-Amz-Security-Token": "token"} {
		if got := values.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}
