package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

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

// watchers returns the number of watches that an actor has open.
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
