// Package apiservertest runs a real API server of a bundle for tests, with those controllers of the controller manager
// that they request.
//
// It authorizes requests as the API server of a cluster does (Node and RBAC, with the admission plugin
// NodeRestriction). [Server.Config] issues client certificates for its users.
package apiservertest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/freeport"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/internal/testenv"
	versions "github.com/coracle-eks/coracle/kubernetes"
)

// Options say what runs.
type Options struct {
	// Minor is the Kubernetes version; the default one when empty.
	Minor string
	// Controllers are those of the controller manager that run; none when empty, the manager's own choice with "*".
	Controllers []string
	// Flags are further flags of the API server.
	Flags []string
	// Environment is added to the API server's own, KEY=value.
	Environment []string
	// Scheduler runs one.
	Scheduler bool
}

// Server is a running API server that goes with the test.
type Server struct {
	Host string // "https://127.0.0.1:34567"
	CA   []byte // PEM
	Dir  string // with pki in it: ca.crt, ca.key

	t       testing.TB
	o       Options
	ca      *x509.Certificate
	key     crypto.Signer
	program string
	process *exec.Cmd
	args    []string
}

// Start starts one and waits until it is ready. Without a bundle the test is skipped.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	testenv.NeedsSetup(t)
	if o.Minor == "" {
		o.Minor = versions.Default
	}
	s := &Server{t: t, o: o, Dir: t.TempDir(), program: program(t, o.Minor)}
	s.makeAuthority()
	p, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	s.Host = fmt.Sprintf("https://127.0.0.1:%d", p)
	serving, servingKey := s.Issue("kube-apiserver", nil)
	_, serviceKey := s.Issue("service-accounts", nil)
	s.args = append([]string{
		"kube-apiserver",
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p),
		"--client-ca-file=" + s.writeFile("ca.crt", s.CA),
		"--enable-admission-plugins=NodeRestriction",
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + storetest.Client(t).Endpoints()[0],
		"--etcd-prefix=" + storetest.Prefix(t) + "registry",
		"--kubelet-certificate-authority=" + filepath.Join(s.Dir, "ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--profiling=false",
		"--service-account-issuer=https://test",
		"--service-account-key-file=" + s.writeFile("sa.key", serviceKey),
		"--service-account-signing-key-file=" + filepath.Join(s.Dir, "sa.key"),
		"--service-cluster-ip-range=10.100.0.0/16",
		"--tls-cert-file=" + s.writeFile("serving.crt", serving),
		"--tls-private-key-file=" + s.writeFile("serving.key", servingKey),
	}, o.Flags...)
	s.startProcess()
	t.Cleanup(s.Stop)
	kubeconfig := s.writeFile("kubeconfig", s.Kubeconfig("admin", "system:masters"))
	if len(o.Controllers) > 0 {
		s.runComponent("kube-controller-manager", []string{
			"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--profiling=false", "--secure-port=0",
			"--controllers=" + strings.Join(o.Controllers, ","),
			"--allocate-node-cidrs=false", "--kube-api-qps=300", "--kube-api-burst=600",
			"--cluster-signing-cert-file=" + filepath.Join(s.Dir, "ca.crt"), "--cluster-signing-key-file=" +
				filepath.Join(s.Dir, "ca.key"),
			"--root-ca-file=" + filepath.Join(s.Dir, "ca.crt"), "--service-account-private-key-file=" +
				filepath.Join(s.Dir, "sa.key"),
		})
	}
	if o.Scheduler {
		s.runComponent("kube-scheduler", []string{"--kubeconfig=" + kubeconfig, "--leader-elect=false",
			"--profiling=false", "--secure-port=0", "--kube-api-qps=300", "--kube-api-burst=600"})
	}
	return s
}

// Stop kills the API server; Restart starts it again.
func (s *Server) Stop() {
	if s.process != nil {
		_ = s.process.Process.Kill() // it may have ended by itself
		_ = s.process.Wait()
		s.process = nil
	}
}

// Restart starts the API server again, over the same data on the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.startProcess()
}

// PID returns the process ID of the API server.
func (s *Server) PID() int { return s.process.Process.Pid }

// Config returns the configuration of a client of the API server, as the given user.
func (s *Server) Config(user string, groups ...string) *rest.Config {
	certificate, key := s.Issue(user, groups)
	return &rest.Config{Host: s.Host, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA, CertData: certificate,
		KeyData: key}, QPS: -1}
}

// ConfigFor is like Config, in the form that controllers ask for.
func (s *Server) ConfigFor(_ context.Context, _ record.Cluster, user string, groups ...string) (*rest.Config, error) {
	return s.Config(user, groups...), nil
}

// Client returns a client of the API server as that user.
func (s *Server) Client(user string, groups ...string) *kubernetes.Clientset {
	s.t.Helper()
	client, err := kubernetes.NewForConfig(s.Config(user, groups...))
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

// Admin returns a client that may do everything.
func (s *Server) Admin() *kubernetes.Clientset { return s.Client("admin", "system:masters") }

// Kubeconfig returns a kubeconfig for the user.
func (s *Server) Kubeconfig(user string, groups ...string) []byte {
	s.t.Helper()
	certificate, key := s.Issue(user, groups)
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: s.Host, CertificateAuthorityData: s.CA}
	c.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	c.CurrentContext = "test"
	b, err := clientcmd.Write(*c)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// program returns the path of the bundle that "make bundles" built.
func program(t testing.TB, minor string) string {
	dir := os.Getenv("CORACLE_BUNDLES")
	if dir == "" {
		dir = filepath.Join(testenv.Root(), "bin/bundles")
	}
	path := filepath.Join(dir, "v"+minor, "kube")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run \"make bundles\"", err)
	}
	return path
}

func (s *Server) startProcess() {
	s.t.Helper()
	s.process = s.spawnProcess(s.args, s.o.Environment)
	admin := s.Admin()
	eventually.Nil(s.t, "the API server is ready", func() error {
		_, err := admin.RESTClient().Get().AbsPath("/readyz").DoRaw(s.t.Context())
		if err == nil { // namespaces come a moment later
			_, err = admin.CoreV1().Namespaces().Get(s.t.Context(), "kube-system", metav1.GetOptions{})
		}
		return err
	})
}

// runComponent runs another component until the test ends.
func (s *Server) runComponent(component string, args []string) {
	s.t.Helper()
	cmd := s.spawnProcess(append([]string{component}, args...), nil)
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
	})
}

func (s *Server) spawnProcess(args, env []string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(s.program, args...)
	cmd.Dir = s.Dir
	// A process that lives for seconds hardly collects garbage, unless it has a lot.
	cmd.Env = append(append([]string{"GOGC=400", "GOMEMLIMIT=600MiB"}, os.Environ()...), env...)
	cmd.SysProcAttr = EndWithParent()
	output := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = output, output
	// The parent is the thread that forked.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {} // the thread lives as long as the test's process
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			text := output.Bytes()
			s.t.Logf("%s: ...%s", args[0], text[max(0, len(text)-3000):])
		}
	})
	return cmd
}

func (s *Server) writeFile(name string, content []byte) string {
	s.t.Helper()
	path := filepath.Join(s.Dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *Server) makeAuthority() {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.ca, err = x509.ParseCertificate(der); err != nil {
		s.t.Fatal(err)
	}
	s.key = key
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.writeFile("ca.key", encodeKeyPEM(s.t, key))
}

// Issue returns a certificate of the cluster's authority for a user, valid for clients and servers on loopback, and its
// key, in PEM.
func (s *Server) Issue(user string, groups []string) (certificate, key []byte) {
	s.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1).To4()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.ca, k.Public(), s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), encodeKeyPEM(s.t, k)
}

func encodeKeyPEM(t testing.TB, key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
