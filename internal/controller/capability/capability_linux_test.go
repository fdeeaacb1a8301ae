package capability

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/internal/upstream"
)

const (
	graphs = "arn:aws:iam::111122223333:role/graphs"
	others = "arn:aws:iam::111122223333:role/others"
)

// crd is the definition that the program of the tests needs.
const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: resourcegraphdefinitions.kro.run}
spec:
  group: kro.run
  names: {kind: ResourceGraphDefinition, plural: resourcegraphdefinitions, singular: resourcegraphdefinition}
  scope: Cluster
  versions:
    - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// host runs one program: a server of its health.
type host struct {
	mu      sync.Mutex
	runs    *process.Spec
	started int // how often another specification came
	server  *http.Server
	status  process.Status
	unready bool
	refuses error // to end it
	// stopping is the context in which it was last to end.
	stopping context.Context
}

func (h *host) Ensure(_ context.Context, s process.Spec) (process.Status, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil || h.runs.Hash() != s.Hash() {
		h.end()
		listener, err := net.Listen("tcp", strings.TrimPrefix(s.Args[0], probeFlag))
		if err != nil {
			return process.Status{}, err
		}
		h.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.unready {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})}
		go h.server.Serve(listener) //nolint:errcheck // it ends with the server
		h.runs = &s
		h.started++
	}
	return h.status, nil
}

func (h *host) Stop(ctx context.Context, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = ctx
	if h.refuses != nil {
		return h.refuses
	}
	h.end()
	return nil
}

// end ends the program; h.mu is held.
func (h *host) end() {
	if h.server != nil {
		_ = h.server.Close() // nobody waits for its answers
	}
	h.server, h.runs = nil, nil
}

// programs are those that can be built, unless there is an error.
type programs struct {
	err error
	in  context.Context // of the last build
}

func (p *programs) Ensure(ctx context.Context, _ catalog.Build, _ func(upstream.Progress)) error {
	p.in = ctx
	return p.err
}
func (p *programs) Path(catalog.Build, string) (string, error) { return "/bin/kro", nil }
func (p *programs) Data(catalog.Build, string) ([]byte, error) { return []byte(crd), nil }

// fixture is a cluster with a capability of type KRO.
type fixture struct {
	*testing.T
	host
	programs
	store  *store.Store
	server *apiservertest.Server
	o      Options
	c      *Controller
	row    record.Capability
	now    time.Time
	denied error           // of the token
	within context.Context // of the last token
}

func newFixture(t *testing.T, kind ekstypes.CapabilityType, server *apiservertest.Server) *fixture {
	t.Helper()
	w := &fixture{T: t, store: storetest.New(t), server: server, now: time.Now().UTC().Truncate(time.Millisecond)}
	w.o = Options{
		Store: w.store, Dir: t.TempDir(), Host: &w.host, Programs: &w.programs,
		Token: func(ctx context.Context, _ record.Capability, role, session string) (string, error) {
			w.within = ctx
			return "token-of-" + filepath.Base(role) + "-" + session, w.denied
		},
		Now: func() time.Time { return w.now }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if server != nil {
		w.o.Config = server.ConfigFor
	}
	cluster := record.Cluster{Account: "111122223333", Region: "eu-west-1", Name: "demo", ID: "C", Version: "1.35"}
	put(t, record.Clusters(w.store), cluster.Key(), cluster)
	put(t, record.ControlPlanes(w.store), cluster.Key(), record.ControlPlane{ClusterID: "C", Ready: true})
	w.row = record.Capability{
		Account: cluster.Account, Region: cluster.Region, Cluster: cluster.Name, ClusterID: cluster.ID, Name: "graphs",
		ID: "0123", Type: kind, CreatedAt: w.now, Wanted: record.CapabilityConfig{RoleARN: graphs}, Change: 1,
	}
	put(t, record.Capabilities(w.store), w.row.Key(), w.row)
	w.c = New(w.o)
	t.Cleanup(func() { w.refuses = nil; _ = w.host.Stop(context.Background(), "") })
	return w
}

func put[T any](t *testing.T, table store.Table[T], key string, v T) {
	t.Helper()
	if _, err := table.Create(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
}

// reconcile makes one pass.
func (w *fixture) reconcile() (gone bool) {
	w.Helper()
	result, err := w.c.Reconcile(w.Context(), w.row.Key())
	if err != nil {
		w.Fatal(err)
	}
	return result.Gone
}

// change changes the record of the capability.
func (w *fixture) change(edit func(*record.Capability)) {
	w.Helper()
	_, err := record.Capabilities(w.store).Modify(w.Context(), w.row.Key(), func(c *record.Capability) error {
		edit(c)
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}

// state returns the status, the state and the last update.
func (w *fixture) state() (ekstypes.CapabilityStatus, record.CapabilityState, record.Update) {
	w.Helper()
	row, err := record.Capabilities(w.store).Get(w.Context(), w.row.Key())
	if err != nil {
		w.Fatal(err)
	}
	state, err := record.CapabilityStates(w.store).Get(w.Context(), w.row.Key())
	if store.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	last, err := record.Updates(w.store).Get(w.Context(),
		record.UpdateKey(w.row.Account, w.row.Region, w.row.Cluster, row.Value.LastUpdateID))
	if store.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	return record.CapabilityStatus(row.Value, state.Value, last.Value), state.Value, last.Value
}

// expect compares the status, and the only issue: its code, and words of its message.
func (w *fixture) expect(status ekstypes.CapabilityStatus, code ekstypes.CapabilityIssueCode, words string) {
	w.Helper()
	got, state, _ := w.state()
	if got != status {
		w.Errorf("status %s, want %s", got, status)
	}
	switch {
	case code == "":
		if len(state.Issues) > 0 {
			w.Errorf("issues %s", *state.Issues[0].Message)
		}
	case len(state.Issues) != 1 || state.Issues[0].Code != code || !strings.Contains(*state.Issues[0].Message, words):
		w.Errorf("issues %+v, want %s: …%s…", state.Issues, code, words)
	}
}

// await makes passes until the capability has a status.
func (w *fixture) await(status ekstypes.CapabilityStatus) {
	w.Helper()
	eventually.Nil(w.T, "the capability is "+string(status), func() error {
		w.reconcile()
		got, state, _ := w.state()
		if got == status {
			return nil
		}
		return errors.New("it is " + string(got) + ": " + issues(state))
	})
}

func issues(s record.CapabilityState) string {
	var all []string
	for _, i := range s.Issues {
		all = append(all, *i.Message)
	}
	return strings.Join(all, "; ")
}

// newServer starts an API server that knows the users of two roles, of whom only one may do something.
func newServer(t *testing.T) *apiservertest.Server {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	err := os.WriteFile(tokens, []byte("token-of-graphs-KRO,graphs,1\ntoken-of-others-KRO,others,2\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := apiservertest.Start(t, apiservertest.Options{Flags: []string{"--token-auth-file=" + tokens}})
	_, err = s.Admin().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "graphs"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "graphs"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestKro follows the life of a capability whose program can be had.
func TestKro(t *testing.T) {
	t.Parallel()
	w := newFixture(t, ekstypes.CapabilityTypeKro, newServer(t))
	w.unready = true
	w.reconcile()
	w.reconcile()
	w.expect(ekstypes.CapabilityStatusCreating, "", "")
	w.host.mu.Lock()
	w.unready = false
	w.host.mu.Unlock()
	w.await(ekstypes.CapabilityStatusActive)
	if _, state, _ := w.state(); state.Version != kroVersion || state.Change != 1 {
		t.Errorf("state %+v", state)
	}
	spec := *w.runs
	if spec.Name != "capability/0123" || spec.Path != "/bin/kro" || spec.Dir != filepath.Join(w.o.Dir, "0123")+"/" &&
		spec.Dir != filepath.Join(w.o.Dir, "0123") {
		t.Errorf("process %+v", spec)
	}
	if !slices.Contains(spec.Env, "GOMAXPROCS=1") {
		t.Errorf("it may use all processors: %q", spec.Env)
	}
	var kubeconfig string
	for _, e := range spec.Env {
		if path, ok := strings.CutPrefix(e, "KUBECONFIG="); ok {
			kubeconfig = path
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(config.Host)
	if err != nil || len(spec.ConnectPorts) != 1 || strconv.Itoa(spec.ConnectPorts[0]) != u.Port() || !kro.OnHost {
		t.Errorf("it connects to the ports %v, built for the host: %t; its API server is %s", spec.ConnectPorts, kro.OnHost,
			config.Host)
	}
	// What the program logs in with is a token of its role, and the definition is there.
	any, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	made, err := any.Resource(definitionResource).Get(t.Context(), "resourcegraphdefinitions.kro.run",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if by := made.GetManagedFields(); !slices.ContainsFunc(by, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == fieldManager && f.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Errorf("fields are managed by %v", by)
	}

	// The daemon comes back: nothing is started again.
	w.c = New(w.o)
	w.reconcile()
	if w.started != 1 {
		t.Errorf("it has been started %d times", w.started)
	}

	// It is not well, and is again.
	w.status = process.Status{Deaths: tooOften, LastExit: "exit status 1"}
	w.reconcile()
	w.expect(ekstypes.CapabilityStatusDegraded, internalFailure, "has died 4 times in a row (exit status 1)")
	w.status = process.Status{}
	w.reconcile()
	w.expect(ekstypes.CapabilityStatusActive, "", "")
	w.now = w.now.Add(time.Hour)
	w.denied = &AccessDenied{Reason: "nobody trusts you"}
	w.reconcile()
	w.expect(ekstypes.CapabilityStatusDegraded, ekstypes.CapabilityIssueCodeAccessDenied, "nobody trusts you")
	w.denied = nil
	w.reconcile()
	w.expect(ekstypes.CapabilityStatusActive, "", "")

	w.otherRole()

	// Its deletion is retried, and leaves the definition.
	w.change(func(c *record.Capability) { c.Deleting = true })
	w.refuses = errors.New("it does not end")
	if _, err := w.c.Reconcile(t.Context(), w.row.Key()); err == nil {
		t.Error("no error of a deletion that fails")
	}
	w.expect(ekstypes.CapabilityStatusDeleteFailed, internalFailure, "it does not end")
	w.refuses = nil
	for range 2 { // once more, as another daemon may
		if !w.reconcile() {
			t.Error("it is not gone")
		}
	}
	if left, err := os.ReadDir(w.o.Dir); len(left) > 0 || err != nil || w.runs != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := w.server.Admin().RESTClient().Get().AbsPath("/apis/kro.run/v1alpha1").DoRaw(t.Context()); err != nil {
		t.Errorf("the definition is gone: %v", err)
	}
}

// otherRole gives the capability another role, which may do nothing, twice: once somebody lets it in time.
func (w *fixture) otherRole() {
	w.Helper()
	update := func(id string) {
		w.Helper()
		put(w.T, record.Updates(w.store), record.UpdateKey(w.row.Account, w.row.Region, w.row.Cluster, id), record.Update{
			ID: id, Cluster: w.row.Cluster, ClusterID: w.row.ClusterID, CapabilityName: w.row.Name,
			CapabilityID: w.row.ID, Status: ekstypes.UpdateStatusInProgress, CreatedAt: w.now,
			PreviousCapability: &record.CapabilityConfig{RoleARN: graphs},
		})
		w.change(func(c *record.Capability) { c.Wanted.RoleARN, c.LastUpdateID, c.Change = others, id, c.Change+1 })
	}
	update("u1")
	w.reconcile()
	w.expect(ekstypes.CapabilityStatusUpdating, ekstypes.CapabilityIssueCodeAccessDenied, "forbidden")
	w.now = w.now.Add(w.c.o.UpdateTimeout)
	w.reconcile()
	if _, _, last := w.state(); last.Status != ekstypes.UpdateStatusFailed || len(last.Errors) != 1 ||
		last.Errors[0].ErrorCode != ekstypes.ErrorCodeAccessDenied {
		w.Errorf("update %+v", last)
	}
	w.await(ekstypes.CapabilityStatusActive) // with the former role
	if w.started != 1 {
		w.Errorf("it has been started %d times", w.started)
	}

	update("u2")
	w.reconcile()
	_, err := w.server.Admin().RbacV1().ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "others"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "others"}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.await(ekstypes.CapabilityStatusActive)
	if _, _, last := w.state(); last.Status != ekstypes.UpdateStatusSuccessful {
		w.Errorf("update %+v", last)
	}
	if w.started != 2 {
		w.Errorf("it has been started %d times", w.started)
	}
}

// TestCreationFails creates capabilities that cannot work.
func TestCreationFails(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		kind ekstypes.CapabilityType
		edit func(*fixture)
		code ekstypes.CapabilityIssueCode
		says string
	}{
		"Argo CD": {kind: ekstypes.CapabilityTypeArgocd, code: internalFailure, says: "IAM Identity Center"},
		"ACK":     {kind: ekstypes.CapabilityTypeAck, code: internalFailure, says: "ACK is not available"},
		"no program": {kind: ekstypes.CapabilityTypeKro, code: internalFailure, says: "cannot be had: no network",
			edit: func(w *fixture) { w.err = errors.New("no network") }},
		"no trust, for too long": {kind: ekstypes.CapabilityTypeKro, code: ekstypes.CapabilityIssueCodeAccessDenied,
			says: "nobody trusts you", edit: func(w *fixture) {
				w.denied = &AccessDenied{Reason: "nobody trusts you"}
				w.now = w.now.Add(time.Hour) // the build took that long
				w.reconcile()
				w.expect(ekstypes.CapabilityStatusCreating, ekstypes.CapabilityIssueCodeAccessDenied, "nobody")
				w.now = w.now.Add(w.c.o.CreateTimeout)
			}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, c.kind, nil)
			if c.edit != nil {
				c.edit(w)
			}
			w.reconcile()
			w.expect(ekstypes.CapabilityStatusCreateFailed, c.code, c.says)
			if w.stopping != nil && !bounded(w.stopping) {
				t.Error("the end of its program may take longer than a minute")
			}
			// That is final, and it can be deleted.
			w.err, w.denied = nil, nil
			w.reconcile()
			w.expect(ekstypes.CapabilityStatusCreateFailed, c.code, c.says)
			w.change(func(c *record.Capability) { c.Deleting = true })
			if !w.reconcile() {
				t.Error("it is not gone")
			}
		})
	}
}

func bounded(ctx context.Context) bool {
	until, ok := ctx.Deadline()
	return ok && time.Until(until) <= passTimeout
}

// TestProgramsThatAreNotReadyAgain has a program that was ready and is so no more: it is asked at intervals, and after
// some time an issue says so.
func TestProgramsThatAreNotReadyAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t, ekstypes.CapabilityTypeKro, nil)
	p := &pass{c: w.c, row: w.row}
	for _, step := range []struct {
		created bool
		later   time.Duration
		pause   time.Duration
		issues  int
	}{
		{false, 0, healthInterval, 0}, {true, 0, issueRetryInterval, 0},
		{true, w.c.o.CreateTimeout - 1, issueRetryInterval, 0}, {true, time.Second, issueRetryInterval, 1},
	} {
		w.now = w.now.Add(step.later)
		p.state.Created = step.created
		pause, err := p.awaitProgram(t.Context())
		if err != nil || pause != step.pause || len(p.state.Issues) != step.issues {
			t.Errorf("%+v: again in %s, with %d issues: %v", step, pause, len(p.state.Issues), err)
		}
	}
}

// TestOnlyBuildsTakeAnHour has passes whose steps never end by themselves.
func TestOnlyBuildsTakeAnHour(t *testing.T) {
	t.Parallel()
	w := newFixture(t, ekstypes.CapabilityTypeKro, nil)
	w.denied = &AccessDenied{Reason: "nobody trusts you"}
	w.reconcile()
	if bounded(w.in) {
		t.Error("a build may take a minute only")
	}
	if !bounded(w.within) {
		t.Error("a token may take longer than a minute")
	}
	w.change(func(c *record.Capability) { c.Deleting = true })
	w.reconcile()
	if !bounded(w.stopping) {
		t.Error("the end of a program may take longer than a minute")
	}
	for _, c := range w.c.Controllers() {
		if c.Timeout != buildTimeout {
			t.Errorf("passes end after %v", c.Timeout)
		}
	}
}
