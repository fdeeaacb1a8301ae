package nodegroup_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coracle-eks/coracle/internal/controller/nodegroup"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestMortalGroups runs the controller in a process of its own, which other tests start and kill.
func TestMortalGroups(t *testing.T) {
	endpoint, prefix, url := os.Getenv("MORTAL_ETCD"), os.Getenv("MORTAL_PREFIX"), os.Getenv("MORTAL_URL")
	if endpoint == "" {
		t.Skip("runs as a process of other tests")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), client, store.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	// The SDK's own, as in the daemon: it has timeouts, and requests are retried.
	config := aws.Config{Region: region, BaseEndpoint: &url, HTTPClient: awshttp.NewBuildableClient(),
		Credentials: credentials.NewStaticCredentialsProvider("ASIAEKS", "secret", "")}
	drain, err := time.ParseDuration(os.Getenv("MORTAL_DRAIN"))
	if err != nil {
		t.Fatal(err)
	}
	controller := nodegroup.New(nodegroup.Options{
		Store: s, DrainTimeout: drain,
		Config: func(context.Context, record.Cluster, string, ...string) (*rest.Config, error) {
			return clientcmd.BuildConfigFromFlags("", os.Getenv("MORTAL_KUBECONFIG"))
		},
		EC2:         func(string, string) nodegroup.EC2 { return ec2.NewFromConfig(config) },
		AutoScaling: func(string, string) nodegroup.AutoScaling { return autoscaling.NewFromConfig(config) },
		IAM:         func(string) nodegroup.IAM { return iam.NewFromConfig(config) },
		EKS:         func(string, string) nodegroup.EKS { return &entries{store: s} },
	})
	if err := reconcile.Run(t.Context(), slog.Default(), controller.Controllers()...); err != nil {
		t.Fatal(err)
	}
}

// mortal gives back what starts the controller in a process of its own, again and again, to die at one point after the
// other. drain is its drain timeout.
func (w *fixture) mortal() (die func(drain time.Duration, points ...string)) {
	w.t.Helper()
	server := httptest.NewServer(w.mux)
	w.t.Cleanup(server.Close)
	kubeconfig := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, w.server.Kubeconfig("eks:node-manager"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return func(drain time.Duration, points ...string) {
		w.t.Helper()
		for _, point := range points {
			ctx, cancel := context.WithTimeout(w.t.Context(), eventually.Limit)
			mortal := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestMortalGroups$")
			mortal.Env = append(os.Environ(), crash.Environment+"=nodegroup/"+point, "MORTAL_ETCD="+
				w.etcd.Endpoints()[0], "MORTAL_PREFIX="+w.prefix, "MORTAL_URL="+server.URL,
				"MORTAL_KUBECONFIG="+kubeconfig, "MORTAL_DRAIN="+drain.String())
			out, err := mortal.CombinedOutput()
			timedOut := ctx.Err() != nil
			cancel()
			var exit *exec.ExitError
			if timedOut || !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				w.t.Fatalf("at %s it did not die: %v\n%s", point, err, out[max(0, len(out)-4000):])
			}
		}
	}
}

func TestTheControllerMayDieAfterEachThingItMakes(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	w := newFixture(t, nodegroup.Options{})
	w.halt()
	w.options.EKS = func(string, string) nodegroup.EKS { return &entries{store: w.store} }
	mortal := w.mortal()
	die := func(points ...string) { t.Helper(); mortal(0, points...) }
	must(record.Clusters(w.store).Modify(t.Context(), w.cluster.Key(), func(c *record.Cluster) error {
		c.AuthenticationMode = ekstypes.AuthenticationModeApiAndConfigMap
		return nil
	}))(t)
	w.sshKey()
	w.put("ng", func(n *record.Nodegroup) {
		n.RemoteAccess, n.Labels = &ekstypes.RemoteAccessConfig{Ec2SshKey: aws.String("key")},
			map[string]string{"a": "1"}
	})
	die("access-entry-created", "instance-profile-created", "remote-access-created", "launch-template-created",
		"scaling-group-created")
	// The API server may be reached at any time in between: the role is mapped then, or has been.
	if err := w.kube.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), "aws-auth",
		metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	die("role-mapped")
	w.start()
	w.serve("ng", 1)
	w.well("ng")
	w.halt()

	update := record.Update{
		ID: uuid.NewString(), Cluster: w.cluster.Name, ClusterID: w.cluster.ID, NodegroupName: "ng",
		Type: ekstypes.UpdateTypeConfigUpdate, Status: ekstypes.UpdateStatusInProgress, CreatedAt: time.Now().UTC(),
	}
	must(record.Updates(w.store).Create(t.Context(), record.UpdateKey(account, region, w.cluster.Name,
		update.ID), update))(t)
	must(record.Nodegroups(w.store).Modify(t.Context(), w.key("ng"), func(n *record.Nodegroup) error {
		n.Labels, n.Scaling.DesiredSize, n.ScalingChange, n.LastUpdateID = map[string]string{"a": "2"}, aws.Int32(2), 2,
			update.ID
		return nil
	}))(t)
	die("launch-template-version-created", "launch-template-used", "resized", "nodes-marked")
	w.start()
	if u := w.ended(update.ID); u.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("the update ended %s: %v", u.Status, u.Errors)
	}
	w.serve("ng", 2)
	w.well("ng")
	versions := must(w.ec2.DescribeLaunchTemplateVersions(t.Context(),
		&ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: aws.String(w.state("ng").LaunchTemplateID)}))(t)
	if n := len(versions.LaunchTemplateVersions); n != 2 {
		t.Errorf("the launch template has %d versions, want 2", n)
	}
	w.halt()

	w.deleting("ng")
	die("scaling-group-emptied", "scaling-group-deleted", "something-removed", "rows-left")
	w.start()
	w.until("the group is gone", func() error {
		if n := len(must(record.Nodegroups(w.store).List(t.Context(), ""))(t)); n > 0 {
			return errors.New("it is there")
		}
		return nil
	})
	w.nothingLeft()
	if n := len(must(record.AccessEntries(w.store).List(t.Context(), ""))(t)); n != 0 || w.awsAuth() != "[]\n" {
		t.Errorf("%d access entries, and mapRoles %q", n, w.awsAuth())
	}
}
