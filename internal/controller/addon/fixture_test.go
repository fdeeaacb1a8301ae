package addon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/kube/apiservertest"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// fixture is a cluster with nodes on which pods run, and an engine that keeps its add-ons.
type fixture struct {
	*testing.T
	server   *apiservertest.Server
	kube     *kubernetes.Clientset
	any      *dynamic.DynamicClient
	kubelets *apiservertest.Kubelets
	store    *store.Store
	prefix   string // of the store in etcd
	cluster  record.Cluster
	options  Options
	audit    string // the API server's audit log
	stop     func()
}

// auditPolicy writes down what eks:addon-manager asks for, and the answers.
const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"RequestResponse","users":["eks:addon-manager"],"verbs":["patch","delete","create","update"]}]}`

// newFixture makes one; it runs until the test ends.
func newFixture(t *testing.T, o Options, nodes int) *fixture {
	t.Helper()
	dir := t.TempDir()
	policy, audit := filepath.Join(dir, "policy"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &fixture{T: t, cluster: cluster(), audit: audit}
	w.server = apiservertest.Start(t, apiservertest.Options{
		Controllers: []string{
			"daemonset-controller", "deployment-controller", "replicaset-controller", "namespace-controller",
			"garbage-collector-controller", "serviceaccount-controller",
			"resourcequota-controller",
		},
		Scheduler: true,
		Flags: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + audit,
			"--disable-admission-plugins=ServiceAccount"},
	})
	w.kube = w.server.Admin()
	any, err := dynamic.NewForConfig(w.server.Config("admin", "system:masters"))
	w.must(err)
	w.any = any
	w.admit()
	w.kubelets = w.server.Kubelets()
	for i := range nodes {
		w.kubelets.Node(fmt.Sprintf("node-%d", i), "", nil)
	}
	w.prefix = storetest.Prefix(t)
	opened, err := store.Open(t.Context(), storetest.Client(t), store.Options{Prefix: w.prefix,
		Log: slog.New(slog.DiscardHandler)})
	w.must(err)
	t.Cleanup(opened.Close)
	w.store = opened
	o.Store, o.Config = w.store, w.server.ConfigFor
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	w.options = o
	create(t, record.Clusters(w.store), w.cluster.Key(), w.cluster)
	create(t, record.ControlPlanes(w.store), w.cluster.Key(), record.ControlPlane{ClusterID: w.cluster.ID,
		Endpoint: w.server.Host, Version: "1.35", Ready: true})
	w.start()
	return w
}

// admit gives eks:addon-manager the permissions that it has on EKS.
func (w *fixture) admit() {
	w.Helper()
	_, err := w.kube.RbacV1().ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "eks:addon-cluster-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "eks:addon-manager"}},
	}, metav1.CreateOptions{})
	w.must(err)
}

// start runs an engine.
func (w *fixture) start() {
	e := New(w.options).engine
	e.render = renderTestAddon
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := reconcile.Run(ctx, w.options.Log, e.controller()); err != nil {
			w.Error(err)
		}
	})
	w.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	w.Cleanup(w.stop)
}

func (w *fixture) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// versions are the add-ons of tests, as YAML, by name and version. What follows "yields:" in a comment of an object is
// its field that yields.
var versions = map[string]map[string]string{
	"agent":  {"v1": agent1, "v2": agent2, "v3": strings.ReplaceAll(agent1, "agent:1", "agent:3")},
	"home":   {"v1": home1},
	"crd":    {"v1": crd1},
	"sailor": {"v1": "apiVersion: example.com/v1\nkind: Boat\nmetadata: {name: sailor}\nspec: {length: 7}\n"},
	"guest": {"v1": strings.ReplaceAll(strings.ReplaceAll(home1, "name: home,", "name: guest,"), "name: settings",
		"name: guests")},
	"lonely": {"v1": strings.ReplaceAll(web1, "web", "lonely")},
	"web":    {"v1": web1, "v2": strings.ReplaceAll(web1, "web:1", "web:2")},
}

// renderTestAddon makes an add-on of tests. Its configuration, if it has one, is put in the place of CONFIG.
func renderTestAddon(
	_ record.Cluster, _ record.ControlPlane, name string, config record.AddonConfig,
) (renderedAddon, error) {
	text, ok := versions[name][config.Version]
	if !ok {
		return renderedAddon{}, &problem{issue: issueOf(ekstypes.AddonIssueCodeInternalFailure, "there is no "+name+" "+
			config.Version)}
	}
	text = strings.ReplaceAll(text, "CONFIG", config.Configuration)
	if config.ServiceAccountRoleARN != "" {
		text = strings.ReplaceAll(text, "kind: ServiceAccount\nmetadata: {",
			"kind: ServiceAccount\nmetadata: {annotations: {eks.amazonaws.com/role-arn: \""+
				config.ServiceAccountRoleARN+"\"}, ")
	}
	m, err := parse(text)
	m.Images = []catalog.Image{{Reference: name + ":" + strings.TrimPrefix(config.Version, "v")}}
	return m, err
}

// parse reads the objects of an add-on of tests.
func parse(text string) (m renderedAddon, err error) {
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := catalog.Object{Unstructured: &unstructured.Unstructured{}}
		if err := yaml.Unmarshal([]byte(document), &o.Unstructured.Object); err != nil {
			return renderedAddon{}, fmt.Errorf("%w\n%s", err, document)
		}
		for line := range strings.Lines(document) {
			if path, ok := strings.CutPrefix(strings.TrimSpace(line), "# yields: "); ok {
				o.Yields = append(o.Yields, path)
			}
		}
		m.Objects = append(m.Objects, o)
	}
	return m, nil
}

const (
	agent1 = `apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: agent-old, namespace: kube-system}
data: {key: value}
---
` + agentDS + `              image: "registry/agent:1"
`
	agent2 = `apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules: [{apiGroups: [""], resources: [pods], verbs: [list, watch]}]
---
` + agentDS + `              image: "registry/agent:2"
`
	agentDS = `# yields: .spec.template.spec.containers[name="agent"].env[name="MTU"].value
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
  namespace: kube-system
  labels: {app.kubernetes.io/name: agent}
spec:
  selector: {matchLabels: {k8s-app: agent}}
  updateStrategy: {rollingUpdate: {maxUnavailable: 10%}, type: RollingUpdate}
  template:
    metadata: {labels: {k8s-app: agent}}
    spec:
      serviceAccountName: agent
      tolerations: [{operator: Exists}]
      containers:
            - name: agent
              env: [{name: MTU, value: "9001"}, {name: LEVEL, value: "CONFIG"}]
`
	web1 = `# yields: .spec.replicas
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: kube-system}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "web:1", resources: {requests: {cpu: 100m}}}]
`
	home1 = `apiVersion: v1
kind: Namespace
metadata: {name: home}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: home}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: home, namespace: home}
spec:
  selector: {matchLabels: {app: home}}
  template:
    metadata: {labels: {app: home}}
    spec: {containers: [{name: home, image: "home:1"}]}
`
	crd1 = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Boat, plural: boats, singular: boat, listKind: BoatList}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {length: {type: integer, maximum: 9}}}}
---
apiVersion: example.com/v1
kind: Boat
metadata: {name: coracle}
spec: {length: CONFIG}
`
)

// key returns the key of an add-on.
func (w *fixture) key(name string) string {
	return record.AddonKey(w.cluster.Account, w.cluster.Region, w.cluster.Name, name)
}

// create asks for an add-on, as CreateAddon does.
func (w *fixture) create(name string, config record.AddonConfig) {
	w.Helper()
	config.Namespace = "kube-system"
	if config.Conflicts == "" {
		config.Conflicts = ekstypes.ResolveConflictsNone
	}
	now := time.Now().UTC()
	row := record.Addon{
		Account: w.cluster.Account, Region: w.cluster.Region, Cluster: w.cluster.Name, ClusterID: w.cluster.ID,
		Name: name, ID: uuid.NewString(),
		CreatedAt: now, ModifiedAt: now, Wanted: config, Change: 1,
	}
	create(w.T, record.Addons(w.store), w.key(name), row)
}

// recreate asks again for one whose creation has failed.
func (w *fixture) recreate(name string, change func(*record.AddonConfig)) {
	w.Helper()
	_, err := record.Addons(w.store).Modify(w.Context(), w.key(name), func(a *record.Addon) error {
		change(&a.Wanted)
		a.Change, a.ModifiedAt = a.Change+1, time.Now().UTC()
		return nil
	})
	w.must(err)
}

// update asks for an update, and gives back its ID.
func (w *fixture) update(name string, conflicts ekstypes.ResolveConflicts, change func(*record.AddonConfig)) string {
	w.Helper()
	row, err := record.Addons(w.store).Copy(w.Context(), w.key(name))
	w.must(err)
	a := row.Value
	last, err := record.Updates(w.store).Get(w.Context(), w.updateKey(a.LastUpdateID))
	w.must(store.IgnoreNotFound(err))
	before := a.Now(last.Value)
	u := record.Update{
		ID: uuid.NewString(), Cluster: w.cluster.Name, ClusterID: w.cluster.ID, AddonName: name, AddonID: a.ID,
		Type:   ekstypes.UpdateTypeAddonUpdate,
		Status: ekstypes.UpdateStatusInProgress, CreatedAt: time.Now().UTC(), PreviousAddon: &before,
	}
	a.Wanted = before
	change(&a.Wanted)
	a.Wanted.Conflicts = conflicts
	a.Change, a.LastUpdateID, a.ModifiedAt = a.Change+1, u.ID, u.CreatedAt
	row.Value = a
	w.must(w.store.Txn(w.Context(), record.Updates(w.store).CreateOp(w.updateKey(u.ID), u),
		record.Addons(w.store).UpdateOp(row)))
	return u.ID
}

func (w *fixture) updateKey(id string) string {
	return record.UpdateKey(w.cluster.Account, w.cluster.Region, w.cluster.Name, id)
}

// ended waits for the end of an update.
func (w *fixture) ended(id string) record.Update {
	w.Helper()
	var u record.Update
	eventually.Nil(w, "the update has ended", func() error {
		row, err := record.Updates(w.store).Get(w.Context(), w.updateKey(id))
		if u = row.Value; err == nil && u.Status == ekstypes.UpdateStatusInProgress {
			err = fmt.Errorf("it is in progress")
		}
		return err
	})
	return u
}

// overdue makes an update one that began long ago.
func (w *fixture) overdue(id string) {
	w.Helper()
	_, err := record.Updates(w.store).Modify(w.Context(), w.updateKey(id),
		func(u *record.Update) error { u.CreatedAt = u.CreatedAt.Add(-time.Hour); return nil })
	w.must(err)
}

// delete asks for a deletion.
func (w *fixture) delete(name string, preserve bool) {
	w.Helper()
	_, err := record.Addons(w.store).Modify(w.Context(), w.key(name), func(a *record.Addon) error {
		a.Deleting,
			a.Preserve = true, preserve
		return nil
	})
	w.must(err)
}

// gone waits until nothing is left of an add-on's rows.
func (w *fixture) gone(name string) {
	w.Helper()
	eventually.Nil(w, name+" is gone", func() error {
		if row, err := record.Addons(w.store).Get(w.Context(), w.key(name)); err == nil {
			return fmt.Errorf("its row is there: %+v", row.Value)
		}
		if _, err := record.AddonStates(w.store).Get(w.Context(), w.key(name)); err == nil {
			return fmt.Errorf("its state is there")
		}
		return nil
	})
}

// status returns the status and issues that DescribeAddon shows.
func (w *fixture) status(name string) (ekstypes.AddonStatus, []ekstypes.AddonIssue) {
	row, err := record.Addons(w.store).Get(w.Context(), w.key(name))
	if err != nil {
		return "", nil
	}
	a := row.Value
	state, err := record.AddonStates(w.store).Get(w.Context(), w.key(name))
	s := state.Value
	if err != nil || s.AddonID != a.ID {
		s = record.AddonState{}
	}
	update, err := record.Updates(w.store).Get(w.Context(), w.updateKey(a.LastUpdateID))
	last := update.Value
	if err != nil {
		last = record.Update{}
	}
	switch {
	case a.Deleting && s.DeleteFailed:
		return ekstypes.AddonStatusDeleteFailed, s.Issues
	case a.Deleting:
		return ekstypes.AddonStatusDeleting, s.Issues
	case !s.Created && s.Failed && s.Change == a.Change:
		return ekstypes.AddonStatusCreateFailed, s.Issues
	case !s.Created:
		return ekstypes.AddonStatusCreating, s.Issues
	case last.Status == ekstypes.UpdateStatusInProgress:
		return ekstypes.AddonStatusUpdating, s.Issues
	case last.Status == ekstypes.UpdateStatusFailed && s.Change == a.Change:
		return ekstypes.AddonStatusUpdateFailed, s.Issues
	case len(s.Issues) > 0:
		return ekstypes.AddonStatusDegraded, s.Issues
	}
	return ekstypes.AddonStatusActive, nil
}

// becomes waits until an add-on has a status, with an issue of each of the codes.
func (w *fixture) becomes(name string, want ekstypes.AddonStatus,
	codes ...ekstypes.AddonIssueCode) []ekstypes.AddonIssue {
	w.Helper()
	var issues []ekstypes.AddonIssue
	eventually.Nil(w, fmt.Sprint(name, " is ", want, " ", codes), func() error {
		var is ekstypes.AddonStatus
		is, issues = w.status(name)
		has := func(c ekstypes.AddonIssueCode) bool {
			return slices.ContainsFunc(issues, func(i ekstypes.AddonIssue) bool { return i.Code == c })
		}
		if is != want || slices.ContainsFunc(codes, func(c ekstypes.AddonIssueCode) bool { return !has(c) }) {
			return fmt.Errorf("it is %s: %s", is, text(issues))
		}
		return nil
	})
	return issues
}

func text(issues []ekstypes.AddonIssue) string {
	var all []string
	for _, i := range issues {
		all = append(all, fmt.Sprint(i.Code, ": ", *i.Message, " ", i.ResourceIds))
	}
	return strings.Join(all, "\n")
}

// ds returns a DaemonSet of kube-system.
func (w *fixture) ds(name string) *appsv1.DaemonSet {
	w.Helper()
	d, err := w.kube.AppsV1().DaemonSets("kube-system").Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	return d
}

// env returns the value of a variable in a DaemonSet's first container.
func env(d *appsv1.DaemonSet, name string) string {
	at := slices.IndexFunc(d.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == name })
	if at < 0 {
		return ""
	}
	return d.Spec.Template.Spec.Containers[0].Env[at].Value
}

// kubectl creates an add-on's objects as "kubectl apply" does.
func (w *fixture) kubectl(name, version string) {
	w.Helper()
	m, err := renderTestAddon(w.cluster, record.ControlPlane{}, name, record.AddonConfig{Version: version})
	w.must(err)
	k, err := newKubectl(w.Context(), w.server.Config("admin", "system:masters"), "")
	w.must(err)
	defer k.Close()
	for _, o := range m.Objects {
		w.must(k.createIfMissing(w.Context(), o.Unstructured))
	}
}

// edit changes a DaemonSet of kube-system as somebody.
func (w *fixture) edit(name, manager string, change func(*appsv1.DaemonSet)) {
	w.Helper()
	eventually.Nil(w, "the change is accepted", func() error {
		d := w.ds(name)
		change(d)
		_, err := w.kube.AppsV1().DaemonSets("kube-system").Update(w.Context(), d,
			metav1.UpdateOptions{FieldManager: manager})
		return err
	})
}

// manager returns the managed fields of a manager of an object, and whether it has any.
func manager(o metav1.Object, name string, operation metav1.ManagedFieldsOperationType) (fields string, there bool) {
	for _, e := range o.GetManagedFields() {
		if e.Manager == name && e.Operation == operation && e.Subresource == "" {
			return string(e.FieldsV1.Raw), true
		}
	}
	return "", false
}
