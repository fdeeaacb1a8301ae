package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// byHand is a control plane as one starts it by hand from the same binaries, with an etcd
// of its own: what Coracle's numbers stand beside.
type byHand struct {
	commands []*exec.Cmd
	url      string
	client   *http.Client
}

const byHandToken = "by-hand"

// startByHand starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler with
// upstream's defaults, all at once, as a script would.
func startByHand(b testing.TB, bundle string) *byHand {
	b.Helper()
	dir := b.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	sa := write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	tokens := write("tokens.csv", byHandToken+`,admin,admin,"system:masters"`+"\n")
	etcdClient, etcdPeer, address := harness.FreeAddress(b), harness.FreeAddress(b), harness.FreeAddress(b)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		b.Fatal(err)
	}
	h := &byHand{
		url:    "https://" + address,
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
	}
	kubeconfig := write("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}],
users: [{name: u, user: {token: %q}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, h.url, byHandToken))
	b.Cleanup(h.stop)
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	h.run(b, dir, self, etcdArgument, filepath.Join(dir, "etcd"), "http://"+etcdClient, "http://"+etcdPeer)
	h.run(b, dir, bundle, "kube-apiserver", "--etcd-servers=http://"+etcdClient, "--bind-address=127.0.0.1",
		"--secure-port="+port,
		"--cert-dir="+dir, "--token-auth-file="+tokens, "--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=10.100.0.0/16",
		"--service-account-key-file="+sa, "--service-account-signing-key-file="+sa,
		"--service-account-issuer=https://by.hand")
	h.run(b, dir, bundle, "kube-controller-manager", "--kubeconfig="+kubeconfig, "--service-account-private-key-file="+
		sa,
		"--use-service-account-credentials", "--secure-port=0", "--leader-elect=false", "--root-ca-file="+
			filepath.Join(dir, "apiserver.crt"))
	h.run(b, dir, bundle, "kube-scheduler", "--kubeconfig="+kubeconfig, "--secure-port=0", "--leader-elect=false")
	return h
}

func (h *byHand) run(b testing.TB, dir, name string, args ...string) {
	b.Helper()
	log, err := os.OpenFile(filepath.Join(dir, args[0]+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	h.commands = append(h.commands, cmd)
}

func (h *byHand) stop() {
	for i := len(h.commands) - 1; i >= 0; i-- {
		_ = h.commands[i].Process.Kill()
		_ = h.commands[i].Wait()
	}
	h.commands = nil
}

// etcdArgument makes the test binary an etcd with upstream's defaults instead of running tests.
const etcdArgument = "etcd-by-hand"

// etcd serves until it is killed. args are the data directory, the client URL and the peer URL.
func etcd(args []string) error {
	c := embed.NewConfig()
	c.Dir = args[0]
	client, err := url.Parse(args[1])
	if err != nil {
		return err
	}
	peer, err := url.Parse(args[2])
	if err != nil {
		return err
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	return <-e.Err()
}

// get asks the API server for a path as an administrator.
func (h *byHand) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+byHandToken)
	resp, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return nil
}

// pids returns the processes of the control plane.
func (h *byHand) pids() []int {
	var pids []int
	for _, c := range h.commands {
		pids = append(pids, c.Process.Pid)
	}
	return pids
}

// pss returns the proportional set size of processes in bytes: what they would free.
func pss(b testing.TB, pids ...int) int64 {
	b.Helper()
	var total int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			b.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var kib int64
			if _, err := fmt.Sscanf(string(line), "Pss: %d kB", &kib); err == nil {
				total += kib << 10
				break
			}
		}
	}
	return total
}

// defaultServiceAccount waits until the default namespace's ServiceAccount answers.
func (h *byHand) defaultServiceAccount(b testing.TB) {
	b.Helper()
	eventually.Nil(b, "the default ServiceAccount answers", func() error {
		return h.get(b.Context(), "/api/v1/namespaces/default/serviceaccounts/default")
	})
}
