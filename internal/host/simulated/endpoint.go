package simulated

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sourcegraph/conc"

	"github.com/coracle-eks/coracle/internal/connlimit"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
	"github.com/coracle-eks/coracle/internal/store"
)

// kubeletPort is the port that kubelets serve on.
const kubeletPort = 10250

// Socket returns the path of a unix socket in dir (of [Options]) through which an API server's egress selector reaches
// the kubelets of a cluster, by HTTP CONNECT to their private addresses, which exist nowhere else.
func Socket(dir, clusterID string) string { return socketPath(dir, clusterID, ".sock") }

// ManagedSocket returns the path of the socket for the API server's other connections: to the daemon's webhooks, and to
// those that users configure by URL. Behind both sockets, other addresses must be public, or be allowed by the operator
// ([Options].Egress).
func ManagedSocket(dir, clusterID string) string { return socketPath(dir, clusterID, "-managed.sock") }

func socketPath(dir, clusterID, suffix string) string {
	return filepath.Join(dir, clusterID[:min(12, len(clusterID))]+suffix) // paths of sockets have 107 bytes
}

// Listen opens the sockets of all clusters, so that what API servers ask from here on waits until the controllers run:
// an API server that cannot reach its authenticator refuses the user at once. What cannot be opened here is tried again
// when the controllers run.
func (c *Controller) Listen(ctx context.Context) {
	if c.o.Dir == "" {
		return
	}
	rows, err := c.planes.List(ctx, "")
	if err != nil {
		c.log.Error("open the egress of API servers", "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, row := range rows {
		id := row.Value.ClusterID
		for _, path := range []string{Socket(c.o.Dir, id), ManagedSocket(c.o.Dir, id)} {
			l, err := listenUnix(path)
			if err != nil {
				c.log.Error("open the egress of an API server", "cluster", row.Key, "error", err)
				continue
			}
			c.listeners[path] = l
		}
	}
}

// listen returns the listener that Listen has opened for a socket, once, and then new ones.
func (c *Controller) listen(path string) (net.Listener, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := c.listeners[path]; ok {
		delete(c.listeners, path)
		return l, nil
	}
	return listenUnix(path)
}

// serveSockets answers at the sockets of all clusters until ctx ends.
func (c *Controller) serveSockets(ctx context.Context, _ func(string)) {
	if c.o.Dir == "" {
		<-ctx.Done()
		return
	}
	type server struct {
		clusterID string
		stop      context.CancelFunc
	}
	var serving conc.WaitGroup
	defer serving.Wait()
	running := map[string]server{}
	c.planes.Notify(ctx, "", func(key string) {
		row, err := c.planes.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			c.log.Error("serve the simulated kubelets", "cluster", key, "error", err)
			return
		}
		id := row.Value.ClusterID // empty if the row is gone
		was, ok := running[key]
		if ok && was.clusterID == id {
			return
		}
		if ok {
			was.stop()
			delete(running, key)
		}
		if id == "" {
			return
		}
		within, stop := context.WithCancel(ctx)
		running[key] = server{id, stop}
		serving.Go(func() {
			recovery.Repeat(within, c.log, "serve the simulated kubelets", func() { c.serveCluster(within, key, id) })
		})
	})
}

// serveCluster answers at a cluster's sockets until ctx ends.
func (c *Controller) serveCluster(ctx context.Context, key, clusterID string) {
	var serving conc.WaitGroup
	defer serving.Wait()
	serving.Go(func() {
		c.serveSocket(ctx, key, Socket(c.o.Dir, clusterID),
			func(conn net.Conn) { c.connectTo(ctx, key, clusterID, conn) })
	})
	c.serveSocket(ctx, key, ManagedSocket(c.o.Dir, clusterID), func(conn net.Conn) { c.connectOut(ctx, conn) })
}

// connDescriptors are the file descriptors of a connection of an API server: its own, and the one that it is joined to.
const connDescriptors = 2

// serveSocket calls serve with every connection to a socket until ctx ends.
func (c *Controller) serveSocket(ctx context.Context, key, path string, serve func(net.Conn)) {
	l, err := c.listen(path)
	if err != nil {
		c.log.Error("serve the egress of an API server", "cluster", key, "error", err)
		return
	}
	var serving conc.WaitGroup
	defer serving.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() == nil {
				c.log.Error("serve the egress of an API server", "cluster", key, "error", err)
			}
			return
		}
		release, ok := connlimit.Acquire(key, connDescriptors)
		if !ok {
			conn.Close() // the API server tries again
			continue
		}
		serving.Go(func() {
			defer release()
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			err := recovery.Try(func() error { serve(conn); return nil })
			if err != nil {
				c.log.Error("a panic in the egress of an API server", "cluster", key, "error", err)
			}
		})
	}
}

// listenUnix takes the place of a daemon that is gone.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false) // the place may be another's by then
	}
	return l, err
}

// egressTime bounds the wait for a connection: kube-apiserver itself gives up after 30 seconds.
const egressTime = 20 * time.Second

// request is one CONNECT of an API server.
type request struct {
	net.Conn
	in      *bufio.Reader
	address string // "10.0.1.7:10250"
}

// acceptConnect reads a CONNECT; false when there is none.
func acceptConnect(conn net.Conn) (*request, bool) {
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second)) // a connection without deadlines serves as well
	r := &request{Conn: conn, in: bufio.NewReader(conn)}
	asked, err := http.ReadRequest(r.in)
	if err != nil {
		return nil, false
	}
	if _, _, err := net.SplitHostPort(asked.Host); err != nil || asked.Method != http.MethodConnect {
		r.writeError("only CONNECT to host:port")
		return nil, false
	}
	r.address = asked.Host
	return r, true
}

func (r *request) writeError(text string) {
	// who asked is gone
	_, _ = fmt.Fprintf(r,
		"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		len(text), text)
}

// establish answers that the connection is there, and returns it.
func (r *request) establish() (net.Conn, bool) {
	if _, err := fmt.Fprint(r, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return nil, false
	}
	_ = r.SetDeadline(time.Time{})
	return &buffered{r.Conn, r.in}, true
}

// boundBuffers returns the dialer with bounded buffers for its connections.
func boundBuffers(of *net.Dialer) *net.Dialer {
	check, dialer := of.Control, *of
	dialer.Control = func(network, address string, socket syscall.RawConn) error {
		if check != nil {
			if err := check(network, address, socket); err != nil {
				return err
			}
		}
		return connlimit.BoundBuffers(network, address, socket)
	}
	return &dialer
}

// forward connects the request to its address.
func (r *request) forward(ctx context.Context, dialer *net.Dialer) {
	dialing, cancel := context.WithTimeout(ctx, egressTime)
	out, err := boundBuffers(dialer).DialContext(dialing, "tcp", r.address)
	cancel()
	if err != nil {
		r.writeError("connect to " + r.address + ": " + outbound.Reason(err))
		return
	}
	defer out.Close()
	if conn, ok := r.establish(); ok {
		relayStreams(ctx, conn, out)
	}
}

// connectOut serves one CONNECT to what is not in the VPC.
func (c *Controller) connectOut(ctx context.Context, conn net.Conn) {
	r, ok := acceptConnect(conn)
	if !ok {
		return
	}
	dialer := c.o.Egress.Dialer()
	if slices.Contains(c.o.Webhooks, r.address) {
		dialer = new(net.Dialer)
	}
	r.forward(ctx, dialer)
}

// connectTo serves one CONNECT to the VPC.
func (c *Controller) connectTo(ctx context.Context, key, clusterID string, conn net.Conn) {
	r, ok := acceptConnect(conn)
	if !ok {
		return
	}
	if r.address == extensionmetrics.Address && c.o.Metrics != nil {
		c.serveMetrics(ctx, key, r)
		return
	}
	host, port, _ := net.SplitHostPort(r.address)
	c.mu.Lock()
	f := c.fleets[clusterID]
	c.mu.Unlock()
	var k *kubelet
	if f != nil && port == strconv.Itoa(kubeletPort) {
		k = f.findKubelet(host)
	}
	if k == nil {
		if c.isInVPC(ctx, key, host) {
			r.writeError("machines are simulated: nothing listens at " + r.address)
			return
		}
		r.forward(ctx, c.o.Egress.Dialer())
		return
	}
	granted, ok := r.establish()
	if !ok {
		return
	}
	server := &http.Server{
		Handler: k.handler(), ReadHeaderTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		TLSConfig: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return k.certificate(ctx)
		}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
	}
	one := &oneListener{conn: granted, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	_ = server.ServeTLS(one, "", "") // ends with the connection
}

// serveMetrics answers a connection to the API of control plane metrics.
func (c *Controller) serveMetrics(ctx context.Context, key string, r *request) {
	row, err := c.planes.Get(ctx, key)
	if err != nil {
		r.writeError("the control plane is gone")
		return
	}
	conn, ok := r.establish()
	if !ok {
		return
	}
	if err := extensionmetrics.Serve(ctx, conn, c.o.Metrics(row.Value)); err != nil {
		c.log.Warn("an API server gets no metrics", "cluster", key, "error", err)
	}
}

// relayStreams copies both ways until either side ends.
func relayStreams(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { a.Close(); b.Close() })
	defer stop()
	var both conc.WaitGroup
	defer both.Wait()
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // either side ends it as it likes
			a.Close()
			b.Close()
		})
	}
}

// isInVPC reports whether an address is in the cluster's VPC, where nobody can be reached.
func (c *Controller) isInVPC(ctx context.Context, key, host string) bool {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return strings.HasSuffix(host, ".compute.internal") || strings.HasSuffix(host, ".ec2.internal")
	}
	cluster, err := c.clusters.Get(ctx, key)
	if err != nil {
		return false
	}
	vpc, err := record.VPCs(c.o.Store).Get(ctx, record.EC2Key(cluster.Value.Account, cluster.Value.Region,
		cluster.Value.VPCID))
	if err != nil {
		return false
	}
	for _, block := range append(slices.Clone(vpc.Value.CIDRs), vpc.Value.IPv6CIDRs...) {
		if prefix, err := netip.ParsePrefix(block.CIDR); err == nil && prefix.Contains(address) {
			return true
		}
	}
	return false
}

// findKubelet returns the kubelet with that address or node name.
func (f *fleet) findKubelet(host string) *kubelet {
	address, err := netip.ParseAddr(host)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		return f.kubelets[host]
	}
	for _, k := range f.kubelets {
		if k.ip == address {
			return k
		}
	}
	return nil
}

// handler answers what an API server asks a kubelet.
func (k *kubelet) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		thing := map[string]string{"containerLogs": "there are no logs",
			"exec": "there is nothing to execute a command in", "run": "there is nothing to execute a command in",
			"attach": "there is nothing to attach to", "portForward": "nothing listens on any port"}[what]
		switch {
		case what == "healthz":
			fmt.Fprint(w, "ok")
			return
		case thing == "":
			thing = "there is no /" + what
		}
		// No colon: an API server takes "a: b" for a Status in YAML, which says nothing.
		text := fmt.Sprintf(
			"machine %s is simulated and nothing runs in its pods, so %s (coracle serve --machines namespace runs "+
				"real ones)", k.instance.ID, thing)
		// An API server passes on the words of a 400, and of few others.
		http.Error(w, text, http.StatusBadRequest)
	})
}

// certificate returns the serving certificate of the node. It requests one as a kubelet does that rotates its
// certificates, but only when a client connects: most simulated nodes never serve one.
func (k *kubelet) certificate(ctx context.Context) (*tls.Certificate, error) {
	k.serving.Lock()
	defer k.serving.Unlock()
	if k.served != nil && time.Now().Before(k.served.Leaf.NotAfter.Add(-time.Hour)) {
		return k.served, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + k.name, Organization: []string{"system:nodes"}},
		DNSNames: []string{k.name}, IPAddresses: []net.IP{k.ip.AsSlice()},
	}, key)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	})
	if err != nil {
		return nil, err
	}
	const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	var have certificatesv1.CertificateSigningRequest
	if err := k.sendRequest(ctx, http.MethodPost, requests, jsonType, body, &have); err != nil {
		return nil, fmt.Errorf("ask for a serving certificate of node %s: %w", k.name, err)
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for len(have.Status.Certificate) == 0 {
		for _, c := range have.Status.Conditions {
			if c.Type != certificatesv1.CertificateApproved {
				return nil, fmt.Errorf("the serving certificate of node %s: %s: %s", k.name, c.Reason, c.Message)
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the serving certificate of node %s has not been signed: %w", k.name, ctx.Err())
		case <-look.C:
		}
		if err := k.sendRequest(ctx, http.MethodGet, requests+"/"+have.Name, jsonType, nil, &have); err != nil {
			return nil, err
		}
	}
	block, _ := pem.Decode(have.Status.Certificate)
	if block == nil {
		return nil, fmt.Errorf("the serving certificate of node %s is no PEM", k.name)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the serving certificate of node %s: %w", k.name, err)
	}
	k.served = &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: leaf}
	return k.served, nil
}

// buffered is a connection some of which has been read ahead.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.in.Read(p) }

// oneListener gives one connection to a server, and ends when that is closed.
type oneListener struct {
	conn  net.Conn
	given sync.Once
	done  chan struct{}
	over  sync.Once
}

func (l *oneListener) Accept() (conn net.Conn, err error) {
	err = net.ErrClosed
	l.given.Do(func() { conn, err = &closing{l.conn, l}, nil })
	if err != nil {
		<-l.done
	}
	return conn, err
}

func (l *oneListener) Close() error   { l.over.Do(func() { close(l.done) }); return nil }
func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }

// closing ends its listener when it is closed.
type closing struct {
	net.Conn
	l *oneListener
}

func (c *closing) Close() error {
	defer c.l.Close()
	return c.Conn.Close()
}
