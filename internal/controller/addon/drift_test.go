package addon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestDrift changes what add-ons have, and sees what is taken back: what EKS owns, and nothing else.
func TestDrift(t *testing.T) {
	t.Parallel()
	w := newFixture(t, Options{}, 1)
	for _, name := range []string{"agent", "web", "home"} {
		w.create(name, record.AddonConfig{Version: "v1", Configuration: "info"})
	}
	for _, name := range []string{"agent", "web", "home"} {
		w.becomes(name, ekstypes.AddonStatusActive)
	}
	set := func(name, value string) func(*appsv1.DaemonSet) {
		return func(d *appsv1.DaemonSet) {
			env := d.Spec.Template.Spec.Containers[0].Env
			for i := range env {
				if env[i].Name == name {
					env[i].Value, env[i].ValueFrom = value, nil
					return
				}
			}
			d.Spec.Template.Spec.Containers[0].Env = append(env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	// like waits until the DaemonSet is as described, and is certain that the engine has seen all that was changed
	// before.
	like := func(what string, is func(*appsv1.DaemonSet) bool) {
		t.Helper()
		w.edit("agent", "kubectl-edit", func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "mark" })
		eventually.Nil(w, what, func() error {
			d := w.ds("agent")
			if d.Spec.Template.Spec.Containers[0].Image != "registry/agent:1" {
				return errors.New("the image is not taken back")
			}
			if !is(d) {
				return fmt.Errorf("it is %+v", d.Spec.Template)
			}
			return nil
		})
	}

	w.edit("agent", "kubectl-set", set("LEVEL", "debug"))
	like("an owned field is taken back", func(d *appsv1.DaemonSet) bool { return env(d, "LEVEL") == "info" })
	w.edit("agent", "kubectl-set", set("MTU", "1500"))
	like("one that yields stays", func(d *appsv1.DaemonSet) bool { return env(d, "MTU") == "1500" })
	w.edit("agent", "kubectl-set", set("MINE", "1"))
	w.edit("agent", "kubectl-label", func(d *appsv1.DaemonSet) { d.Labels["mine"] = "1" })
	like("those of others stay", func(d *appsv1.DaemonSet) bool {
		return env(d, "MINE") == "1" && d.Labels["mine"] == "1" && env(d, "MTU") == "1500"
	})
	w.edit("agent", "kubectl-edit", func(d *appsv1.DaemonSet) {
		for i, e := range d.Spec.Template.Spec.Containers[0].Env {
			if e.Name == "MTU" {
				d.Spec.Template.Spec.Containers[0].Env[i] = corev1.EnvVar{Name: "MTU",
					ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
			}
		}
	})
	w.becomes("agent", ekstypes.AddonStatusActive)
	if d := w.ds("agent"); d.Spec.Template.Spec.Containers[0].Env[0].ValueFrom == nil && env(d, "MTU") != "" {
		t.Errorf("a value from elsewhere did not stay: %+v", d.Spec.Template.Spec.Containers[0].Env)
	}
	w.edit("agent", "kubectl-edit", func(d *appsv1.DaemonSet) { // as "kubectl set env ds agent MTU-"
		env := d.Spec.Template.Spec.Containers[0].Env
		d.Spec.Template.Spec.Containers[0].Env = append(env[:0:0], env[1:]...)
	})
	eventually.Nil(w, "a variable that was taken away is back", func() error {
		if got := env(w.ds("agent"), "MTU"); got != "9001" {
			return fmt.Errorf("MTU is %q", got)
		}
		return nil
	})

	scale, err := w.kube.AppsV1().Deployments("kube-system").GetScale(t.Context(), "web", metav1.GetOptions{})
	w.must(err)
	scale.Spec.Replicas = 3
	_, err = w.kube.AppsV1().Deployments("kube-system").UpdateScale(t.Context(), "web", scale,
		metav1.UpdateOptions{FieldManager: "kubectl"})
	w.must(err)
	w.must(w.kube.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), "agent-old", metav1.DeleteOptions{}))
	w.must(w.kube.AppsV1().DaemonSets("kube-system").Delete(t.Context(), "agent", metav1.DeleteOptions{}))
	w.must(w.kube.CoreV1().Namespaces().Delete(t.Context(), "home", metav1.DeleteOptions{}))
	eventually.Nil(w, "what was deleted is back", func() error {
		if _, err := w.kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "agent-old",
			metav1.GetOptions{}); err != nil {
			return err
		}
		if d, err := w.kube.AppsV1().DaemonSets("kube-system").Get(t.Context(), "agent",
			metav1.GetOptions{}); err != nil || d.DeletionTimestamp != nil {
			return fmt.Errorf("agent: %w", err)
		}
		if n, err := w.kube.CoreV1().Namespaces().Get(t.Context(), "home", metav1.GetOptions{}); err != nil ||
			n.DeletionTimestamp != nil {
			return fmt.Errorf("home: %w", err)
		}
		if _, err := w.kube.CoreV1().ConfigMaps("home").Get(t.Context(), "settings", metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := w.kube.AppsV1().Deployments("home").Get(t.Context(), "home", metav1.GetOptions{})
		return err
	})
	for _, name := range []string{"agent", "web", "home"} {
		w.becomes(name, ekstypes.AddonStatusActive)
	}
	web, err := w.kube.AppsV1().Deployments("kube-system").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || *web.Spec.Replicas != 3 {
		t.Errorf("%v replicas, %v", web.Spec.Replicas, err)
	}
}

// TestTwoControllersDoNotFight runs another controller that always takes an owned field: EKS gives way for a while, and
// reports it.
func TestTwoControllersDoNotFight(t *testing.T) {
	t.Parallel()
	w := newFixture(t, Options{}, 1)
	w.create("agent", record.AddonConfig{Version: "v1"})
	w.becomes("agent", ekstypes.AddonStatusActive)
	n := 0
	eventually.Nil(w, "it gives up", func() error {
		if status, issues := w.status("agent"); status == ekstypes.AddonStatusDegraded {
			w.says(issues,
				`Apply failed with 1 conflict: conflict with "gitops": .spec.template.spec.containers[name="agent"].image`, "daemonset.apps/agent")
			return nil
		}
		if w.ds("agent").Spec.Template.Spec.Containers[0].Image != "gitops" {
			n++
			patch := `{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{"template":{"spec":{"containers":[{"name":"agent","image":"gitops"}]}}}}`
			_, err := w.kube.AppsV1().DaemonSets("kube-system").Patch(t.Context(), "agent", types.ApplyPatchType,
				[]byte(patch), metav1.PatchOptions{FieldManager: "gitops", Force: new(true)})
			w.must(err)
		}
		return errors.New("they fight")
	})
	if n > takenBackMost+2 {
		t.Errorf("it was taken back %d times", n)
	}
	if strings.Count(w.read(w.audit), "daemonsets/agent?fieldManager=eks") > takenBackMost+3 {
		t.Error("it was applied too often")
	}
}

// TestDeletion deletes add-ons, among them one that something holds.
func TestDeletion(t *testing.T) {
	t.Parallel()
	w := newFixture(t, Options{Patience: 200 * time.Millisecond, Standard: func(o record.AddonObject) bool {
		return o.Kind == "ConfigMap" && o.Name == "agent-old"
	}}, 1)
	for _, name := range []string{"agent", "web", "home", "crd"} {
		w.create(name, record.AddonConfig{Version: "v1", Configuration: "5"})
	}
	for _, name := range []string{"agent", "web", "home", "crd"} {
		w.becomes(name, ekstypes.AddonStatusActive)
	}
	_, err := w.kube.AppsV1().Deployments("kube-system").Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["example.com/held"]}}`), metav1.PatchOptions{})
	w.must(err)
	association := record.PodIdentityAssociation{Account: w.cluster.Account, Region: w.cluster.Region,
		Cluster: w.cluster.Name, ClusterID: w.cluster.ID, ID: "a-1"}
	row, err := record.Addons(w.store).Get(t.Context(), w.key("agent"))
	w.must(err)
	association.AddonID = row.Value.ID
	create(t, record.PodIdentityAssociations(w.store), record.PodIdentityAssociationKey(association.Account,
		association.Region, association.Cluster, association.ID), association)
	for _, name := range []string{"agent", "web", "home", "crd"} {
		w.delete(name, false)
	}
	w.gone("agent")
	w.gone("home")
	w.gone("crd")
	w.says(w.becomes("web", ekstypes.AddonStatusDeleteFailed, ekstypes.AddonIssueCodeInternalFailure),
		"its finalizers example.com/held", "deployment.apps/web")
	_, err = w.kube.AppsV1().Deployments("kube-system").Patch(t.Context(), "web", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/metadata/finalizers","value":[]}]`), metav1.PatchOptions{})
	w.must(err)
	w.gone("web")
	if _, err := record.PodIdentityAssociations(w.store).Get(t.Context(),
		record.PodIdentityAssociationKey(association.Account, association.Region, association.Cluster,
			association.ID)); err == nil {
		t.Error("its association is there")
	}
	for what, get := range map[string]func() error{
		"the DaemonSet": func() error {
			_, err := w.kube.AppsV1().DaemonSets("kube-system").Get(t.Context(), "agent", metav1.GetOptions{})
			return err
		},
		"the role": func() error {
			_, err := w.kube.RbacV1().ClusterRoles().Get(t.Context(), "agent", metav1.GetOptions{})
			return err
		},
		"the boat": func() error {
			_, err := w.any.Resource(boats).Get(t.Context(), "coracle", metav1.GetOptions{})
			return err
		},
		"a pod": func() error {
			pods, err := w.kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			if err == nil && len(pods.Items) == 0 {
				err = errors.New("none")
			}
			return err
		},
	} {
		if get() == nil {
			t.Errorf("%s is still there", what)
		}
	}

	standard, err := w.kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "agent-old", metav1.GetOptions{})
	if err != nil || manages(standard) {
		t.Errorf("an object that every cluster has is %+v: %v", standard, err)
	}

	// What two have goes with the second.
	w.create("home", record.AddonConfig{Version: "v1"})
	w.create("guest", record.AddonConfig{Version: "v1"})
	w.becomes("home", ekstypes.AddonStatusActive)
	w.becomes("guest", ekstypes.AddonStatusActive)
	w.delete("home", false)
	w.gone("home")
	n, err := w.kube.CoreV1().Namespaces().Get(t.Context(), "home", metav1.GetOptions{})
	if err != nil || n.DeletionTimestamp != nil || !manages(n) {
		t.Errorf("the namespace of another add-on is gone: %v", err)
	}
	w.becomes("guest", ekstypes.AddonStatusActive)
	w.delete("guest", false)
	w.gone("guest")
	_, err = w.kube.CoreV1().Namespaces().Get(t.Context(), "home", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the namespace of nobody is there: %v", err)
	}

	// Add-ons go with their cluster.
	w.create("agent", record.AddonConfig{Version: "v1"})
	w.becomes("agent", ekstypes.AddonStatusActive)
	cluster, err := record.Clusters(w.store).Get(t.Context(), w.cluster.Key())
	w.must(err)
	w.must(record.Clusters(w.store).Delete(t.Context(), cluster))
	w.gone("agent")
}
