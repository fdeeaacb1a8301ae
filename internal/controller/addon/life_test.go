package addon

import (
	"errors"
	"os"
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestAnAddonAdoptsSelfManagedObjects takes an add-on over objects that kubectl created and that differ through its
// life: refused, overwritten, updated, downgraded, and given up.
func TestAnAddonAdoptsSelfManagedObjects(t *testing.T) {
	t.Parallel()
	w := newFixture(t, Options{}, 2)
	w.kubectl("agent", "v1")
	before := w.ds("agent")

	w.create("agent", record.AddonConfig{Version: "v2"})
	issues := w.becomes("agent", ekstypes.AddonStatusCreateFailed, ekstypes.AddonIssueCodeConfigurationConflict)
	want := `Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.template.spec.containers[name="agent"].image`
	found := false
	for _, i := range issues {
		found = found || *i.Message == want && len(i.ResourceIds) == 1 && i.ResourceIds[0] == "daemonset.apps/agent"
	}
	if !found {
		t.Errorf("the issues are\n%s\nand not %s", text(issues), want)
	}
	if now := w.ds("agent"); now.ResourceVersion != before.ResourceVersion && now.Generation != before.Generation {
		t.Errorf("the DaemonSet has changed")
	}
	role, err := w.kube.RbacV1().ClusterRoles().Get(t.Context(), "agent", metav1.GetOptions{})
	w.must(err)
	if _, there := manager(role, "eks", metav1.ManagedFieldsOperationApply); there {
		t.Errorf("a conflict of one object changed another")
	}
	audit := w.read(w.audit)
	for _, part := range []string{
		`"requestURI":"/apis/apps/v1/namespaces/kube-system/daemonsets/agent?dryRun=All\u0026fieldManager=eks\u0026force=false\u0026timeout=10s"`,
		`"userAgent":"Go-http-client/1.1"`, `"reason":"FieldManagerConflict"`, `"code":409`,
	} {
		if !strings.Contains(audit, part) {
			t.Errorf("the audit log lacks %s", part)
		}
	}
	if strings.Contains(audit, `force=true`) {
		t.Errorf("something was forced")
	}

	w.recreate("agent", func(c *record.AddonConfig) { c.Conflicts = ekstypes.ResolveConflictsOverwrite })
	w.becomes("agent", ekstypes.AddonStatusActive)
	d := w.ds("agent")
	if d.Spec.Template.Spec.Containers[0].Image != "registry/agent:2" || d.Status.UpdatedNumberScheduled != 2 ||
		d.Status.NumberAvailable != 2 {
		t.Errorf("active with image %s and status %+v", d.Spec.Template.Spec.Containers[0].Image, d.Status)
	}
	fields, _ := manager(d, "eks", metav1.ManagedFieldsOperationApply)
	for _, f := range []string{`"f:image":{}`, `"k:{\"name\":\"MTU\"}":{".":{},"f:name":{},"f:value":{}}`} {
		if !strings.Contains(fields, f) {
			t.Errorf("eks does not own %s: %s", f, fields)
		}
	}
	if !strings.Contains(w.read(w.audit), `daemonsets/agent?fieldManager=eks\u0026force=true\u0026timeout=10s`) {
		t.Error("nothing was forced")
	}

	// What the user gives another value stays his over an update; what eks lacks now goes, and comes back with the
	// version that has it.
	set := func(mtu string) func(*appsv1.DaemonSet) {
		return func(d *appsv1.DaemonSet) {
			for i, e := range d.Spec.Template.Spec.Containers[0].Env {
				if e.Name == "MTU" {
					d.Spec.Template.Spec.Containers[0].Env[i].Value = mtu
				}
			}
		}
	}
	w.edit("agent", "kubectl-set", set("1500"))
	for _, version := range []string{"v3", "v2", "v1"} {
		u := w.ended(w.update("agent", ekstypes.ResolveConflictsNone,
			func(c *record.AddonConfig) { c.Version = version }))
		if u.Status != ekstypes.UpdateStatusSuccessful {
			t.Fatalf("to %s: %s %+v", version, u.Status, u.Errors)
		}
		w.becomes("agent", ekstypes.AddonStatusActive)
		d = w.ds("agent")
		if got := d.Spec.Template.Spec.Containers[0].Image; got != "registry/agent:"+version[1:] ||
			env(d, "MTU") != "1500" {
			t.Errorf("at %s the image is %s and MTU %s", version, got, env(d, "MTU"))
		}
		_, err := w.kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "agent-old", metav1.GetOptions{})
		if gone := apierrors.IsNotFound(err); gone != (version == "v2") {
			t.Errorf("at %s: %v", version, err)
		}
	}

	// PRESERVE keeps what the user set in the way; OVERWRITE takes it, and what yields with it.
	w.edit("agent", "kubectl-edit", func(d *appsv1.DaemonSet) {
		d.Spec.Template.Annotations = map[string]string{
			"mine": "1"}
	})
	u := w.ended(w.update("agent", ekstypes.ResolveConflictsOverwrite,
		func(c *record.AddonConfig) { c.Configuration = "debug" }))
	if u.Status != ekstypes.UpdateStatusSuccessful {
		t.Fatalf("%+v", u)
	}
	if d = w.ds("agent"); env(d, "MTU") != "9001" || env(d, "LEVEL") != "debug" ||
		d.Spec.Template.Annotations["mine"] != "1" {
		t.Errorf("OVERWRITE left MTU %s, LEVEL %s, annotations %v", env(d, "MTU"), env(d, "LEVEL"),
			d.Spec.Template.Annotations)
	}

	w.edit("agent", "kubectl-set", set("1400"))
	w.delete("agent", true)
	w.gone("agent")
	after := w.ds("agent")
	if _, there := manager(after, "eks", metav1.ManagedFieldsOperationApply); there {
		t.Error("eks still owns fields")
	}
	if env(after, "MTU") != "1400" || env(after, "LEVEL") != "debug" ||
		after.Spec.Template.Spec.Containers[0].Image != "registry/agent:1" ||
		after.Labels["app.kubernetes.io/name"] != "agent" {
		t.Errorf("preserving changed %+v", after.Spec.Template)
	}
}

func (w *fixture) read(path string) string {
	w.Helper()
	b, err := os.ReadFile(path)
	w.must(err)
	return string(b)
}

// TestUpdatesThatFail goes through updates that change nothing, or are taken back.
func TestUpdatesThatFail(t *testing.T) {
	t.Parallel()
	w := newFixture(t, Options{}, 1)
	w.create("agent", record.AddonConfig{Version: "v1"})
	w.becomes("agent", ekstypes.AddonStatusActive)

	// Somebody owns a field, too: with NONE the update fails, with PRESERVE the field stays his, and with OVERWRITE it
	// becomes EKS's.
	patch := `{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{"template":{"spec":{"containers":[{"name":"agent","image":"registry/agent:1"}]}}}}`
	_, err := w.kube.AppsV1().DaemonSets("kube-system").Patch(t.Context(), "agent", types.ApplyPatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "gitops"})
	w.must(err)
	before := w.ds("agent")
	u := w.ended(w.update("agent", ekstypes.ResolveConflictsNone, func(c *record.AddonConfig) { c.Version = "v2" }))
	want := `Apply failed with 1 conflict: conflict with "gitops": .spec.template.spec.containers[name="agent"].image`
	if u.Status != ekstypes.UpdateStatusFailed || len(u.Errors) != 1 ||
		u.Errors[0].ErrorCode != ekstypes.ErrorCodeConfigurationConflict || *u.Errors[0].ErrorMessage != want {
		t.Errorf("%s %+v", u.Status, u.Errors)
	}
	w.says(w.becomes("agent", ekstypes.AddonStatusUpdateFailed, ekstypes.AddonIssueCodeConfigurationConflict), want,
		"daemonset.apps/agent")
	if d := w.ds("agent"); d.Generation != before.Generation {
		t.Error("the update that failed has changed the DaemonSet")
	}
	u = w.ended(w.update("agent", ekstypes.ResolveConflictsPreserve,
		func(c *record.AddonConfig) { c.Version = "v2"; c.Configuration = "warn" }))
	if u.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("%s %+v", u.Status, u.Errors)
	}
	w.becomes("agent", ekstypes.AddonStatusActive)
	if d := w.ds("agent"); d.Spec.Template.Spec.Containers[0].Image != "registry/agent:1" || env(d, "LEVEL") != "warn" {
		t.Errorf("PRESERVE made image %s, LEVEL %s", d.Spec.Template.Spec.Containers[0].Image, env(d, "LEVEL"))
	}
	state, err := record.AddonStates(w.store).Get(t.Context(), w.key("agent"))
	w.must(err)
	for _, o := range state.Value.Objects {
		if o.Kind == "DaemonSet" && (len(o.Kept) != 1 ||
			o.Kept[0] != `.spec.template.spec.containers[name="agent"].image`) {
			t.Errorf("kept are %v", o.Kept)
		}
	}
	w.edit("agent", "kubectl-edit", func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.Containers[0].Env[1].Value = "mine"
	})
	eventually.Nil(w, "what is EKS's is taken back, and what was kept is not", func() error {
		if d := w.ds("agent"); d.Spec.Template.Spec.Containers[0].Image != "registry/agent:1" ||
			env(d, "LEVEL") != "warn" {
			return errors.New(d.Spec.Template.String())
		}
		return nil
	})
	u = w.ended(w.update("agent", ekstypes.ResolveConflictsOverwrite, func(*record.AddonConfig) {}))
	if d := w.ds("agent"); u.Status != ekstypes.UpdateStatusSuccessful ||
		d.Spec.Template.Spec.Containers[0].Image != "registry/agent:2" {
		t.Errorf("OVERWRITE ended %s %+v, with image %s", u.Status, u.Errors, d.Spec.Template.Spec.Containers[0].Image)
	}

	// Pods that do not come up: what was before is applied again.
	w.kubelets.Silence("node-0")
	id := w.update("agent", ekstypes.ResolveConflictsNone, func(c *record.AddonConfig) { c.Version = "v3" })
	eventually.True(w, "it is applied", func() bool {
		return w.ds(
			"agent").Spec.Template.Spec.Containers[0].Image == "registry/agent:3"
	})
	w.overdue(id)
	u = w.ended(id)
	if u.Status != ekstypes.UpdateStatusFailed || len(u.Errors) != 1 ||
		u.Errors[0].ErrorCode != ekstypes.ErrorCodeInsufficientNumberOfReplicas {
		t.Errorf("%s %+v", u.Status, u.Errors)
	}
	eventually.Nil(w, "it is rolled back", func() error {
		if image := w.ds("agent").Spec.Template.Spec.Containers[0].Image; image != "registry/agent:2" {
			return errors.New(image)
		}
		return nil
	})
	w.becomes("agent", ekstypes.AddonStatusUpdateFailed, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas)
}

// TestAdoptedObjectsFollowTheirVersions adopts objects of the very same version, which kubectl then owns as well: an
// update with PRESERVE makes them those of its version all the same, but for what somebody has set.
func TestAdoptedObjectsFollowTheirVersions(t *testing.T) {
	t.Parallel()
	w := newFixture(t, Options{}, 1)
	w.kubectl("agent", "v1")
	w.create("agent", record.AddonConfig{Version: "v1"})
	w.becomes("agent", ekstypes.AddonStatusActive)
	fields, _ := manager(w.ds("agent"), "kubectl-client-side-apply", metav1.ManagedFieldsOperationUpdate)
	if !strings.Contains(fields, `"f:image"`) {
		t.Fatalf("kubectl owns %s", fields)
	}
	w.edit("agent", "kubectl-set", func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.Containers[0].Env[0].Value = "1500"
	})
	u := w.ended(w.update("agent", ekstypes.ResolveConflictsPreserve, func(c *record.AddonConfig) {
		c.Version,
			c.Configuration = "v2", "warn"
	}))
	if d := w.ds("agent"); u.Status != ekstypes.UpdateStatusSuccessful ||
		d.Spec.Template.Spec.Containers[0].Image != "registry/agent:2" || env(d, "MTU") != "1500" ||
		env(d, "LEVEL") != "warn" {
		t.Errorf("%s %+v: image %s, MTU %s, LEVEL %s", u.Status, u.Errors, d.Spec.Template.Spec.Containers[0].Image,
			env(d, "MTU"), env(d, "LEVEL"))
	}
}
