// Package addon tests EKS add-ons as their users meet them: the unmodified aws and kubectl, coracle fields, a cluster
// with real nodes on which the add-ons' pods run. The tests need root.
//
// All of it happens in one cluster, as making one takes longer than most of what is tried in it: [TestAddons] is the
// list.
package addon

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

const (
	version = "1.35"
	poll    = 50 * time.Millisecond

	minutesToBuild = "its programs take minutes to build"
)

// cluster is the fixture as one test sees it.
type cluster struct {
	*clustertest.Fixture
	t   *testing.T
	eks *eks.Client
}

// TestAddons goes from a cluster without nodes, whose add-ons are its users' own, to one in which EKS has them.
func TestAddons(t *testing.T) {
	t.Parallel()
	s := clustertest.New(t, "ironman-2022", version)
	c := &cluster{s, t, eks.NewFromConfig(s.Daemon.Config())}
	c.aws("eks", "update-cluster-config", "--name", c.Cluster, "--logging",
		`{"clusterLogging":[{"types":["audit"],"enabled":true}]}`)
	c.AwaitStatus(c.Cluster, "ACTIVE")
	c.aws("iam", "create-open-id-connect-provider", "--url", c.issuer(), "--client-id-list", "sts.amazonaws.com",
		"--thumbprint-list", "9e99a48a9960b14926bb7f3b02e22da2b0ab7280")
	nodes := c.withoutNodes()
	c.AwaitNodes(nodes...)
	c.run("nodes come", (*cluster).nodesCome)
	// What touches nothing in common, at once.
	t.Run("on nodes", func(t *testing.T) {
		for name, test := range map[string]func(*cluster){
			"vpc-cni, takeover": (*cluster).takeover,
			"coredns":           (*cluster).configuration,
			"pod identity":      (*cluster).podIdentity,
			"private":           (*cluster).private,
			"refusals":          (*cluster).refusals,
			"capability":        (*cluster).unavailableCapability,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(&cluster{s, t, c.eks})
			})
		}
	})
	// The takeover changes the MTU of the nodes' interfaces: pods with much to say come after it, lest they be cut off.
	c.run("pod identity without the daemon", (*cluster).withoutDaemon)
	c.run("vpc-cni by pod identity", (*cluster).networkByIdentity)
	c.run("metrics-server", (*cluster).metrics)
	c.run("cert-manager", (*cluster).certificates)
	c.run("gatekeeper", (*cluster).gatekeeper)
	c.run("kro", (*cluster).kro)
}

// run runs a part of the test that has the cluster for itself.
func (c *cluster) run(name string, test func(*cluster)) {
	c.t.Run(name, func(t *testing.T) { test(&cluster{c.Fixture, t, c.eks}) })
}

// must runs a command that has to succeed, of this part of the test.
func (c *cluster) must(name string, args ...string) string {
	c.t.Helper()
	out, errs, err := c.Try(c.Config, name, args...)
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs)
	}
	return out
}

func (c *cluster) aws(args ...string) string { c.t.Helper(); return c.must("aws", args...) }

func (c *cluster) kubectl(args ...string) string { c.t.Helper(); return c.must("kubectl", args...) }

// refused runs a command of the aws command line that has to fail, with an error that contains each of want.
func (c *cluster) refused(want []string, args ...string) {
	c.t.Helper()
	out, errs, err := c.Try("", "aws", args...)
	for _, text := range want {
		if err == nil || !strings.Contains(errs, text) {
			c.t.Errorf("aws %s: %v, want %q in\n%s%s", strings.Join(args, " "), err, text, out, errs)
		}
	}
}

// addon runs an operation of aws eks on an add-on of the cluster.
func (c *cluster) addon(operation, name string, args ...string) string {
	c.t.Helper()
	return c.aws(append([]string{"eks", operation, "--cluster-name", c.Cluster, "--addon-name", name}, args...)...)
}

// fields returns the output of `coracle fields`.
func (c *cluster) fields(args ...string) string {
	c.t.Helper()
	return c.must("coracle", append([]string{"fields", "--data-dir", c.Dir}, args...)...)
}

// contains checks that text contains each of want.
func (c *cluster) contains(what, text string, want ...string) {
	c.t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			c.t.Errorf("%s lacks %q:\n%s", what, w, text)
		}
	}
}

func (c *cluster) describe(name string) (*ekstypes.Addon, error) {
	out, err := c.eks.DescribeAddon(c.t.Context(), &eks.DescribeAddonInput{ClusterName: &c.Fixture.Cluster,
		AddonName: &name})
	if err != nil {
		return nil, err
	}
	return out.Addon, nil
}

// await waits until the add-on has that status.
func (c *cluster) await(name string, want ekstypes.AddonStatus) *ekstypes.Addon {
	c.t.Helper()
	var last *ekstypes.Addon
	err := eventually.Try(poll, func() (err error) {
		if last, err = c.describe(name); err != nil {
			return err
		}
		if last.Status == want {
			return nil
		}
		err = fmt.Errorf("add-on %s is %s, not %s: %s", name, last.Status, want, harness.Text(last.Health))
		if strings.HasSuffix(string(last.Status), "_FAILED") && slices.ContainsFunc(last.Health.Issues,
			func(i ekstypes.AddonIssue) bool {
				return i.Code == ekstypes.AddonIssueCodeConfigurationConflict // all else goes on being tried
			}) {
			return eventually.Never(err)
		}
		return err
	})
	if err != nil {
		c.explain()
		c.t.Fatal(err)
	}
	return last
}

// issue waits until the add-on has that status with an issue of that code, whose message has the texts in it.
func (c *cluster) issue(name string, status ekstypes.AddonStatus, code ekstypes.AddonIssueCode,
	texts ...string) ekstypes.AddonIssue {
	c.t.Helper()
	var found ekstypes.AddonIssue
	err := eventually.Try(poll, func() error {
		a, err := c.describe(name)
		if err != nil {
			return err
		}
		for _, i := range a.Health.Issues {
			has := a.Status == status && i.Code == code
			for _, text := range texts {
				has = has && strings.Contains(aws.ToString(i.Message), text)
			}
			if has {
				found = i
				return nil
			}
		}
		return fmt.Errorf("add-on %s is %s with %s; want %s with %s %q", name, a.Status, harness.Text(a.Health), status,
			code, texts)
	})
	if err != nil {
		c.explain()
		c.t.Fatal(err)
	}
	return found
}

// updated waits for the end of an update of the add-on.
func (c *cluster) updated(name, id string, want ekstypes.UpdateStatus) *ekstypes.Update {
	c.t.Helper()
	var last *ekstypes.Update
	if err := eventually.Try(poll, func() error {
		out, err := c.eks.DescribeUpdate(c.t.Context(), &eks.DescribeUpdateInput{Name: &c.Fixture.Cluster,
			AddonName: &name, UpdateId: &id})
		if err != nil {
			return err
		}
		last = out.Update
		if last.Status == want {
			return nil
		}
		err = fmt.Errorf("update %s of add-on %s is %s: %s", id, name, last.Status, harness.Text(last.Errors))
		if last.Status != ekstypes.UpdateStatusInProgress {
			return eventually.Never(err)
		}
		return err
	}); err != nil {
		c.explain()
		c.t.Fatal(err)
	}
	return last
}

// update asks for an update, and waits for its end.
func (c *cluster) update(name string, want ekstypes.UpdateStatus, args ...string) *ekstypes.Update {
	c.t.Helper()
	id := strings.TrimSpace(c.addon("update-addon", name, append(args, "--query", "update.id", "--output", "text")...))
	return c.updated(name, id, want)
}

// gone waits until the add-on is no longer described.
func (c *cluster) gone(name string) {
	c.t.Helper()
	c.until("add-on "+name+" is gone", func() error {
		a, err := c.describe(name)
		var missing *ekstypes.ResourceNotFoundException
		if errors.As(err, &missing) {
			return nil
		}
		return fmt.Errorf("it is %s: %v", harness.Text(a), err)
	})
}

func (c *cluster) until(what string, try func() error) {
	c.t.Helper()
	if err := eventually.Try(poll, try); err != nil {
		c.explain()
		c.t.Fatalf("%s: %v", what, err)
	}
}

// explain logs what runs in the cluster.
func (c *cluster) explain() {
	c.t.Helper()
	for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"}} {
		out, errs, _ := c.Try(c.Config, "kubectl", args...)
		c.t.Logf("kubectl %s:\n%s%s", strings.Join(args, " "), out[max(0, len(out)-8000):], errs)
	}
}

// get decodes an object, with its managed fields.
func (c *cluster) get(into any, args ...string) {
	c.t.Helper()
	text := c.kubectl(append(append([]string{"get"}, args...), "--show-managed-fields", "-o", "json")...)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		c.t.Fatalf("kubectl get %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

// workload is a DaemonSet or Deployment, as far as the tests look.
type workload struct {
	Metadata metav1.ObjectMeta
	Spec     struct {
		Replicas *int
		Template struct {
			Spec struct {
				InitContainers, Containers []struct {
					Name, Image string
					Env         []struct{ Name, Value string }
				}
			}
		}
	}
}

func (c *cluster) workload(name string) workload {
	c.t.Helper()
	var w workload
	c.get(&w, "-n", "kube-system", name)
	return w
}

// image returns the image of a container.
func (w workload) image(container string) string {
	for _, x := range append(slices.Clone(w.Spec.Template.Spec.InitContainers), w.Spec.Template.Spec.Containers...) {
		if x.Name == container {
			return x.Image
		}
	}
	return ""
}

// env returns a variable of a container.
func (w workload) env(container, name string) string {
	for _, x := range w.Spec.Template.Spec.Containers {
		for _, e := range x.Env {
			if x.Name == container && e.Name == name {
				return e.Value
			}
		}
	}
	return ""
}

// manager returns the entry of a field manager; nil without one.
func manager(m metav1.ObjectMeta, name string) *metav1.ManagedFieldsEntry {
	for _, e := range m.ManagedFields {
		if e.Manager == name {
			return &e
		}
	}
	return nil
}

// versions returns the versions of an add-on for the cluster's Kubernetes version, newest first, and the default one.
func (c *cluster) versions(name string) (all []string, standard string) {
	c.t.Helper()
	var out struct {
		Addons []struct {
			AddonName     string
			AddonVersions []struct {
				AddonVersion    string
				Compatibilities []struct {
					ClusterVersion string
					DefaultVersion bool
				}
			}
		}
	}
	text := c.aws("eks", "describe-addon-versions", "--kubernetes-version", version, "--addon-name", name, "--output",
		"json")
	if err := json.Unmarshal([]byte(text), &out); err != nil || len(out.Addons) != 1 ||
		out.Addons[0].AddonName != name {
		c.t.Fatalf("the versions of %s: %v\n%s", name, err, text)
	}
	for _, v := range out.Addons[0].AddonVersions {
		all = append(all, v.AddonVersion)
		for _, k := range v.Compatibilities {
			if k.ClusterVersion != version {
				c.t.Errorf("a version for %s is among those for %s", k.ClusterVersion, version)
			}
			if k.DefaultVersion {
				standard = v.AddonVersion
			}
		}
	}
	if standard == "" || len(all) < 3 {
		c.t.Fatalf("%s has versions %q, the default is %q", name, all, standard)
	}
	return all, standard
}

// other returns a version that is not the default one: the newest before it.
func (c *cluster) other(name string) (other, standard string) {
	c.t.Helper()
	all, standard := c.versions(name)
	for _, v := range all[slices.Index(all, standard)+1:] {
		return v, standard
	}
	c.t.Fatalf("%s has no version before %s: %q", name, standard, all)
	return "", ""
}

// file makes a file for a command.
func (c *cluster) file(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}
