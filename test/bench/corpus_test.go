package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/klauspost/compress/zstd"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/test/harness"
)

// corpusSource is this file: a change of it makes another corpus.
//
//go:embed corpus_test.go
var corpusSource []byte

// corpusEvents is how many audit events the corpus has, unless CORACLE_BENCH_EVENTS says another number.
const corpusEvents = 1_000_000

// corpus is the path of audit events as a real API server wrote them, one a line, compressed, and how
// many there are. They are kept in bin/bench, and made by a cluster under load when they are not there.
func corpus(b testing.TB) (path string, events int) {
	b.Helper()
	events = corpusEvents
	if text := os.Getenv("CORACLE_BENCH_EVENTS"); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil || events < 1000 {
			b.Fatalf("CORACLE_BENCH_EVENTS is %q, not a number from 1000 up", text)
		}
	}
	sum := sha256.Sum256(corpusSource)
	path = filepath.Join(harness.Root(), "bin", "bench", fmt.Sprintf("audit-%s-%d.jsonl.zst",
		hex.EncodeToString(sum[:4]), events))
	if _, err := os.Stat(path); err == nil {
		return path, events
	}
	makeCorpus(b, path, events)
	return path, events
}

// makeCorpus has a cluster of Kubernetes 1.35 write audit events under load until there are enough.
func makeCorpus(b testing.TB, path string, events int) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	out, err := os.CreateTemp(filepath.Dir(path), "making-*")
	if err != nil {
		b.Fatal(err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	encoder, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		b.Fatal(err)
	}

	start := time.Now()
	d := harness.Start(b)
	d.CreateCluster("corpus", version, d.ClusterRole(), d.Subnets())
	d.AwaitStatus("corpus", ekstypes.ClusterStatusActive)
	client, config := kubernetesClient(b, d, "corpus")
	defaultServiceAccount(b, client)
	// The log that is being written; rotated ones have a time in their names.
	files, err := filepath.Glob(filepath.Join(d.Dir, "clusters", "*", "log", "kube-apiserver-audit*.log"))
	logs := slices.DeleteFunc(files, func(f string) bool { return strings.Contains(filepath.Base(f), "T") })
	if err != nil || len(logs) != 1 {
		b.Fatalf("the audit log of the cluster is not to be found: %v, %v", logs, err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan error, 1)
	l := &clusterLoad{client: client, config: config}
	l.token.Store(&config.BearerToken)
	go func() { done <- l.run(ctx) }()
	renew := time.NewTicker(5 * time.Minute) // tokens of EKS are good for a quarter of an hour
	defer renew.Stop()

	var written, size int
	progress := time.NewTicker(10 * time.Second)
	defer progress.Stop()
	err = followAudit(ctx, logs[0], func(line []byte) (more bool, err error) {
		select {
		case err := <-done:
			return false, fmt.Errorf("the load ended: %w", err)
		case <-renew.C:
			_, config := kubernetesClient(b, d, "corpus")
			l.token.Store(&config.BearerToken)
		case <-progress.C:
			fmt.Fprintf(os.Stderr, "making %s: %d of %d audit events after %s\n", path, written, events,
				time.Since(start).Round(time.Second))
		default:
		}
		written++
		size += len(line) - 1
		_, err = encoder.Write(line)
		return written < events, err
	})
	if err != nil {
		b.Fatal(err)
	}
	cancel()
	<-done // what the end interrupts says nothing
	if err := errors.Join(encoder.Close(), out.Sync(), os.Rename(out.Name(), path)); err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "made %s in %s: %d audit events of %d bytes on average\n", path,
		time.Since(start).Round(time.Second), written, size/written)
}

// followAudit gives each the lines of a log as they are written, across its rotations, which rename the
// file, until each wants no more.
func followAudit(ctx context.Context, path string, each func(line []byte) (more bool, err error)) error {
	for {
		file, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) { // in the middle of a rotation
			<-time.After(time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		more, err := followFile(ctx, file, path, each)
		file.Close()
		if err != nil || !more {
			return err
		}
	}
}

// followFile is followAudit for one file, which ends with true when another has taken its place.
func followFile(ctx context.Context, file *os.File, path string, each func([]byte) (bool, error)) (bool, error) {
	reader := bufio.NewReaderSize(file, 1<<20)
	var line []byte
	replaced := false
	for {
		part, err := reader.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			more, err := each(line)
			if err != nil || !more {
				return false, err
			}
			line = line[:0]
		case errors.Is(err, bufio.ErrBufferFull):
		case !errors.Is(err, io.EOF):
			return false, err
		case replaced && len(line) == 0: // read to its end after it was known to be complete
			return true, nil
		default:
			select {
			case <-ctx.Done():
				return false, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
			ours, err := file.Stat()
			if err != nil {
				return false, err
			}
			current, err := os.Stat(path)
			replaced = err == nil && !os.SameFile(ours, current)
		}
	}
}

// clusterLoad asks the API server of a cluster for what the users and controllers of a busy cluster ask for.
type clusterLoad struct {
	client *kubernetes.Clientset
	config *rest.Config
	token  atomic.Pointer[string] // of the cluster's creator
}

// actor is somebody who asks the API server for something.
type actor struct {
	namespace string
	token     *atomic.Pointer[string]
	headers   string // of HTTP, each ended by CRLF
	act       func(s *session) error
	weight    int
}

// run asks until ctx ends.
func (l *clusterLoad) run(ctx context.Context) error {
	client, config := l.client, l.config
	for _, ns := range corpusNamespaces {
		if ns == "kube-system" {
			continue
		}
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
			metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "corpus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
	}
	for _, ns := range []string{"kube-system", "shop", "monitoring", "argocd"} { // payments' may nothing
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "Group",
			Name: "system:serviceaccounts:" + ns})
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	person := func(namespace, name, agent string, act func(*session) error, weight int) actor {
		return actor{namespace, &l.token,
			fmt.Sprintf("Impersonate-User: %s\r\nImpersonate-Group: system:masters\r\nUser-Agent: %s\r\n", name, agent),
			act, weight}
	}
	serviceAccount := func(namespace, name string) (*atomic.Pointer[string], error) {
		_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		var held atomic.Pointer[string]
		held.Store(&token.Status.Token)
		return &held, nil
	}
	var actors []actor
	for _, a := range []struct {
		namespace, name, agent string
		act                    func(*session) error
		weight                 int
	}{
		{"kube-system", "aws-node", "aws-vpc-cni-node/v1.20.4", readSome, 4},
		{"kube-system", "karpenter", "karpenter/1.8.1", readSome, 4},
		{"kube-system", "metrics-server", "metrics-server/v0.8.0 (linux/amd64) kubernetes/fea70ca", reviewAccess, 8},
		{"kube-system", "cluster-autoscaler",
			"cluster-autoscaler/v1.35.0 (linux/arm64) kubernetes/$Format/leader-election", renewLease, 1},
		{"argocd", "argocd-application-controller", "argocd-application-controller/v3.2.0", syncApplication, 8},
		{"monitoring", "prometheus-k8s", "Prometheus/3.7.3", readSome, 6},
		{"monitoring", "kube-state-metrics", "kube-state-metrics/v2.17.0 (linux/amd64) kube-state-metrics/b8d8b3d",
			readSome, 6},
		{"shop", "external-secrets", "external-secrets/v0.20.4 (linux/amd64) kubernetes/$Format", syncConfigMaps, 1},
		{"payments", "default", "okhttp/5.1.0", forbidden, 1},
	} {
		token, err := serviceAccount(a.namespace, a.name)
		if err != nil {
			return err
		}
		actors = append(actors, actor{a.namespace, token, "User-Agent: " + a.agent + "\r\n", a.act, a.weight})
	}
	actors = append(actors,
		person("shop", "alice", "kubectl/v1.35.4 (linux/amd64) kubernetes/3f2c1a0", workByHand, 2),
		person("payments", "bob", "kubectl/v1.34.2 (darwin/arm64) kubernetes/8cc511e", workByHand, 2),
		person("search", "arn:aws:sts::111122223333:assumed-role/deploy/github-actions", "helm/v4.0.0", workByHand, 2),
		person("kube-system", "carol", "eksctl/0.218.0", maintain, 1),
	)

	if err := furnish(config, actors[len(actors)-1]); err != nil {
		return err
	}
	// The callers of a connection take turns, so that each connection is always busy.
	const connections = 12
	var wg sync.WaitGroup
	failed := make(chan error, 1)
	fail := func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range connections {
		wg.Go(func() { fail(runActors(ctx, config.Host, i, actors)) })
	}
	for i, a := range actors {
		for range watchers(a) {
			wg.Go(func() { fail(watchSome(ctx, config.Host, a, i)) })
		}
	}
	err = <-failed
	cancel()
	wg.Wait()
	return err
}

// watchers is how many watches somebody has open.
func watchers(a actor) int {
	if a.weight == 1 {
		return 0
	}
	return 2
}

var corpusNamespaces = []string{"kube-system", "shop", "payments", "search", "monitoring", "argocd"}

// session is one connection to the API server, used by one actor at a time.
type session struct {
	actor
	conn   *tls.Conn
	reader *bufio.Reader
	host   string
	number int // of the connection: names made from it are the session's own
	random *rand.Rand
	body   bytes.Buffer // of the last answer
	buffer bytes.Buffer
}

func openSession(host string, number int) (*session, error) {
	u, err := url.Parse(host)
	if err != nil {
		return nil, err
	}
	conn, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), host: u.Host, number: number,
		random: rand.New(rand.NewPCG(uint64(number), 1))}, nil
}

func runActors(ctx context.Context, host string, number int, actors []actor) error {
	s, err := openSession(host, number)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	var turns []actor
	for _, a := range actors {
		for range a.weight {
			turns = append(turns, a)
		}
	}
	for ctx.Err() == nil {
		s.actor = turns[s.random.IntN(len(turns))]
		if err := s.act(s); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// watchSome watches for a second at a time.
func watchSome(ctx context.Context, host string, a actor, number int) error {
	s, err := openSession(host, number)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	s.actor = a
	for ctx.Err() == nil {
		resource := []string{"/api/v1/namespaces/%s/configmaps", "/api/v1/namespaces/%s/pods",
			"/apis/apps/v1/namespaces/%s/deployments", "/apis/apps/v1/namespaces/%s/daemonsets"}[s.random.IntN(4)]
		path := fmt.Sprintf(resource, s.namespace) +
			"?allowWatchBookmarks=true&resourceVersion=0&timeoutSeconds=1&watch=true&labelSelector=app%3Dnone"
		if err := s.do("GET", path, "", ""); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// do sends one request and reads the answer. A status that says that the request was understood is no
// error: names are chosen so that some are not found and some exist already, as in life. net/http's
// client would take more of the two cores than the API server.
func (s *session) do(method, path, contentType, body string) error {
	s.buffer.Reset()
	fmt.Fprintf(&s.buffer, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\nAuthorization: Bearer %s\r\n%s",
		method, path, s.host, *s.token.Load(), s.headers)
	if body != "" {
		fmt.Fprintf(&s.buffer, "Content-Type: %s\r\nContent-Length: %d\r\n", contentType, len(body))
	}
	s.buffer.WriteString("\r\n" + body)
	if _, err := s.conn.Write(s.buffer.Bytes()); err != nil {
		return err
	}
	response, err := http.ReadResponse(s.reader, nil)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	s.body.Reset()
	if _, err := s.body.ReadFrom(response.Body); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	switch response.StatusCode {
	case 200, 201, 403, 404, 409, 429:
		return nil
	}
	return fmt.Errorf("%s %s: %s\n%s", method, path, response.Status, s.body.Bytes())
}

// furnish makes what is there before the load begins.
func furnish(config *rest.Config, by actor) error {
	s, err := openSession(config.Host, 0)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	s.actor = by
	for _, s.namespace = range corpusNamespaces {
		for n := range 40 {
			// Without replicas: the controllers would be busier than the API server.
			deployment := fmt.Sprintf(
				`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"api-%d","labels":{"app":"api-%d"}},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"api-%d"}},"template":{"metadata":{"labels":{"app":"api-%d"}},"spec":%s}}}`,
				n, n, n, n, fmt.Sprintf(podSpec, 0))
			configMap := fmt.Sprintf(
				`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings-%d","labels":{"app":"api-%d"}},"data":{"refresh":"0"}}`, n, n)
			if err := s.all([4]string{"POST", s.apps("deployments?fieldManager=argocd-controller"), asJSON, deployment},
				[4]string{"POST", s.core("configmaps"), asJSON, configMap}); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	asJSON       = "application/json"
	asMergePatch = "application/merge-patch+json"
	asStrategic  = "application/strategic-merge-patch+json"
)

// all makes requests in a row.
func (s *session) all(requests ...[4]string) error {
	for _, r := range requests {
		if err := s.do(r[0], r[1], r[2], r[3]); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) core(resource string) string {
	return "/api/v1/namespaces/" + s.namespace + "/" + resource
}
func (s *session) apps(resource string) string {
	return "/apis/apps/v1/namespaces/" + s.namespace + "/" + resource
}

// readSome is what controllers do all day.
func readSome(s *session) error {
	n := s.random.IntN(40)
	return s.all(
		[4]string{"GET", s.core(fmt.Sprintf("configmaps/settings-%d?resourceVersion=0", n))},
		[4]string{"GET", s.core(fmt.Sprintf("pods?labelSelector=app%%3Dapi-%d&limit=20&resourceVersion=0", n))},
		[4]string{"GET", s.apps(fmt.Sprintf("deployments/api-%d?resourceVersion=0", n))},
		[4]string{"GET", "/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node?resourceVersion=0"},
		[4]string{"GET", s.apps(fmt.Sprintf("daemonsets?labelSelector=k8s-app%%3Dagent-%d&resourceVersion=0", n))},
		[4]string{"GET", s.core("serviceaccounts/default?resourceVersion=0")},
	)
}

// reviewAccess asks who may do what, as every server with delegated authorization does, and every console.
func reviewAccess(s *session) error {
	user := fmt.Sprintf("system:serviceaccount:%s:%s", corpusNamespaces[s.random.IntN(6)],
		[]string{"default", "prometheus-k8s", "karpenter"}[s.random.IntN(3)])
	subject := fmt.Sprintf(
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":{"namespace":%q,"verb":"get","group":"metrics.k8s.io","version":"v1beta1","resource":"pods","name":"api-%d"},"user":%q,"groups":["system:serviceaccounts","system:serviceaccounts:monitoring","system:authenticated"]}}`,
		s.namespace, s.random.IntN(1000), user)
	rules := fmt.Sprintf(
		`{"kind":"SelfSubjectRulesReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"namespace":%q}}`, s.namespace)
	return s.all(
		[4]string{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", asJSON, subject},
		[4]string{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", asJSON, rules},
		[4]string{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", asJSON, rules},
	)
}

var renewTime = regexp.MustCompile(`"renewTime":"[^"]*"`)

// renewLease is leader election.
func renewLease(s *session) error {
	leases := "/apis/coordination.k8s.io/v1/namespaces/" + s.namespace + "/leases"
	lease := fmt.Sprintf("%s/controller-%d", leases, s.number)
	if err := s.do("GET", lease, "", ""); err != nil {
		return err
	}
	now := `"renewTime":"` + time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00") + `"`
	if !renewTime.Match(s.body.Bytes()) {
		return s.do("POST", leases, asJSON,
			fmt.Sprintf(
				`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"controller-%d"},"spec":{"holderIdentity":"controller-%d_1","leaseDurationSeconds":15,%s}}`, s.number, s.number, now))
	}
	return s.do("PUT", lease, asJSON, string(renewTime.ReplaceAll(s.body.Bytes(), []byte(now))))
}

// syncConfigMaps makes ConfigMaps as they should be.
func syncConfigMaps(s *session) error {
	n := s.random.IntN(40)
	name := fmt.Sprintf("settings-%d", n)
	object := func(name string) string {
		return fmt.Sprintf(
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"labels":{"app":"api-%d"}},"data":{"refresh":"%d"}}`, name, n, s.random.IntN(1e6))
	}
	own := fmt.Sprintf("%s-%d-%d", name, s.number, s.random.IntN(1e6))
	return s.all(
		[4]string{"GET", s.core("configmaps/" + name + "?resourceVersion=0")},
		[4]string{"PUT", s.core("configmaps/" + name), asJSON, object(name)},
		[4]string{"GET", s.core("configmaps?labelSelector=app%3Dapi-" + strconv.Itoa(n) +
			"&limit=10&resourceVersion=0")},
		[4]string{"POST", s.core("configmaps"), asJSON, object(own)},
		[4]string{"PATCH", s.core("configmaps/" + own + "?fieldManager=external-secrets"), asMergePatch,
			`{"data":{"ready":"true"}}`},
		[4]string{"GET", s.core("configmaps/" + own + "?resourceVersion=0")},
		[4]string{"DELETE", s.core("configmaps/" + own)},
	)
}

const podSpec = `{"containers":[{"name":"app","image":"111122223333.dkr.ecr.eu-west-1.amazonaws.com/api:1.4.%d","ports":[{"containerPort":8080}],"env":[{"name":"STAGE","value":"production"}],"resources":{"requests":{"cpu":"250m","memory":"256Mi"}}}]}`

// syncApplication compares much, by applying without effect, and changes a little.
func syncApplication(s *session) error {
	n := s.random.IntN(40)
	path := s.apps(fmt.Sprintf("deployments/api-%d?fieldManager=argocd-controller", n))
	refresh := fmt.Sprintf(`{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"%d"}}}`, s.random.IntN(1e6))
	switch dice := s.random.IntN(100); {
	case dice < 1:
		return s.do("PATCH", path, asStrategic, refresh)
	case dice < 9:
		return s.do("PATCH", path+"&dryRun=All", asStrategic, refresh)
	}
	if err := readSome(s); err != nil {
		return err
	}
	return s.do("GET", s.apps(fmt.Sprintf("deployments?labelSelector=app%%3Dapi-%d&limit=20&resourceVersion=0", n)), "",
		"")
}

// workByHand is what people do.
func workByHand(s *session) error {
	name := fmt.Sprintf("debug-%d-%d", s.number, s.random.IntN(1e6))
	if s.random.IntN(6) > 0 {
		n := s.random.IntN(60)
		return s.all(
			[4]string{"GET", s.core(fmt.Sprintf("pods?labelSelector=app%%3Dapi-%d&limit=500&resourceVersion=0", n))},
			[4]string{"GET", s.apps(fmt.Sprintf("deployments/api-%d", n))},
			[4]string{"GET", s.core(fmt.Sprintf("configmaps/settings-%d", n))},
			[4]string{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asJSON, fmt.Sprintf(
				`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":{"namespace":%q,"verb":"delete","resource":"pods"}}}`, s.namespace)},
		)
	}
	return s.all(
		[4]string{"POST", s.core("pods?fieldManager=kubectl-run"), asJSON,
			fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"labels":{"run":%q}},"spec":%s}`, name,
				name, fmt.Sprintf(podSpec, 1))},
		[4]string{"PATCH", s.core("pods/" + name + "?fieldManager=kubectl-label"), asMergePatch,
			`{"metadata":{"labels":{"debug":"true"}}}`},
		[4]string{"GET", s.core("pods/" + name)},
		[4]string{"DELETE", s.core("pods/" + name)},
	)
}

// maintain is the change that somebody will look for later.
func maintain(s *session) error {
	s.namespace = "kube-system"
	if s.random.IntN(8) > 0 {
		return s.all([4]string{"GET", s.core("configmaps/aws-auth")}, [4]string{"GET", s.apps("daemonsets/aws-node")})
	}
	daemonSet := `{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"name":"aws-node","labels":{"k8s-app":"aws-node"}},"spec":{"selector":{"matchLabels":{"k8s-app":"aws-node"}},"template":{"metadata":{"labels":{"k8s-app":"aws-node"}},"spec":` + fmt.Sprintf(podSpec, 2) + `}}}`
	mapRoles := fmt.Sprintf(
		`- groups:\n  - system:bootstrappers\n  - system:nodes\n  rolearn: arn:aws:iam::111122223333:role/nodes-%d\n  username: system:node:{{EC2PrivateDNSName}}\n`, s.random.IntN(20))
	awsAuth := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"aws-auth"},"data":{"mapRoles":"` + mapRoles +
		`"}}`
	return s.all(
		[4]string{"POST", s.apps("daemonsets"), asJSON, daemonSet},
		[4]string{"PATCH", s.apps("daemonsets/aws-node?fieldManager=kubectl-set"), asStrategic,
			fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"release":"%d"}}}}}`, s.random.IntN(1e6))},
		[4]string{"POST", s.core("configmaps"), asJSON, awsAuth},
		[4]string{"PATCH", s.core("configmaps/aws-auth?fieldManager=eksctl"), asMergePatch,
			strings.TrimSuffix(`{"data":{"mapRoles":"`+mapRoles+`"}}`, "\n")},
	)
}

// forbidden is somebody who may not.
func forbidden(s *session) error {
	return s.do("GET", "/api/v1/namespaces/kube-system/secrets/bootstrap-token-"+strconv.Itoa(s.random.IntN(100)), "",
		"")
}
