// Package chaos kills the daemon and the processes of control planes at many instants and
// shows that everything converges and nothing that was acknowledged is lost.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/crash"
	_ "github.com/coracle-eks/coracle/internal/daemon" // its packages define the crash points
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// phoenix is a daemon that is started again whenever it dies, to die at another point.
type phoenix struct {
	*harness.Daemon
	t       *testing.T
	extra   []string // environment beside the points
	points  []string // at which it has yet to die
	visited []string
}

// do repeats a call until the daemon answers it. again says that an answer to a repetition
// means that the first attempt, whose answer was lost, was carried out.
func (p *phoenix) do(what string, call func(context.Context) error, again func(error) bool) {
	p.t.Helper()
	lost := false
	eventually.Nil(p.t, what, func() error {
		p.revive()
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
		defer cancel()
		err := call(ctx)
		var api smithy.APIError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &api):
			if lost && again(err) {
				return nil
			}
			return eventually.Never(err)
		}
		lost = true
		return err
	})
}

// revive starts the daemon again if it is dead, as often as it dies while it starts.
func (p *phoenix) revive() {
	p.t.Helper()
	for {
		select {
		case <-p.Exited():
		default:
			return
		}
		deaths := dying.FindAllStringSubmatch(p.Log(), -1)
		if len(deaths) != len(p.visited)+1 {
			p.t.Fatalf("the daemon ended by itself; its log ends:\n%s", p.Log()[max(0, len(p.Log())-4000):])
		}
		point := deaths[len(deaths)-1][1]
		p.visited = append(p.visited, point)
		p.points = slices.DeleteFunc(p.points, func(q string) bool { return q == point })
		p.start()
	}
}

var dying = regexp.MustCompile(`crash: dying at (\S+)`)

// start starts the daemon with the points that are left. It may die before it is healthy.
func (p *phoenix) start() {
	p.SetExtraEnv(append(p.extra, crash.Environment+"="+strings.Join(p.points, ","))...)
	p.Launch()
	if err := p.Healthy(); err != nil {
		select {
		case <-p.Exited():
		default:
			p.t.Fatal(err)
		}
	}
}

// await waits for a cluster's status, over as many deaths as come.
func (p *phoenix) await(name string, want ekstypes.ClusterStatus) *ekstypes.Cluster {
	p.t.Helper()
	client := eks.NewFromConfig(p.Config())
	var found *ekstypes.Cluster
	eventually.Nil(p.t, fmt.Sprintf("cluster %s becomes %q", name, want), func() error {
		p.revive()
		out, err := client.DescribeCluster(context.Background(), &eks.DescribeClusterInput{Name: &name})
		var gone *ekstypes.ResourceNotFoundException
		if errors.As(err, &gone) {
			if want == "" {
				return nil
			}
			return eventually.Never(errors.New("its creation was acknowledged, and it is lost"))
		}
		if err != nil {
			return err
		}
		found = out.Cluster
		if found.Status != want {
			return fmt.Errorf("it is %s: %s", found.Status, harness.Text(found.Health))
		}
		return nil
	})
	return found
}

// life creates a cluster, writes to it, changes and upgrades it, and deletes it.
func (p *phoenix) life(name, role string, subnets []string) {
	p.t.Helper()
	client := eks.NewFromConfig(p.Config())
	inUse := func(err error) bool {
		var e *ekstypes.ResourceInUseException
		return errors.As(err, &e)
	}
	p.do("create", func(ctx context.Context) error {
		_, err := client.CreateCluster(ctx, &eks.CreateClusterInput{
			Name: &name, Version: aws.String("1.35"), RoleArn: &role,
			ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: subnets},
		})
		return err
	}, inUse)
	p.await(name, ekstypes.ClusterStatusActive)
	config := p.kubeconfig(name)
	p.kubectl(config, "create", "configmap", "kept", "--from-literal=written=before")

	p.do("update config", func(ctx context.Context) error {
		_, err := client.UpdateClusterConfig(ctx, &eks.UpdateClusterConfigInput{Name: &name, Logging: &ekstypes.Logging{
			ClusterLogging: []ekstypes.LogSetup{{Enabled: aws.Bool(true),
				Types: []ekstypes.LogType{ekstypes.LogTypeAudit}}}}})
		return err
	}, func(err error) bool {
		var e *ekstypes.InvalidParameterException // no changes needed
		return inUse(err) || errors.As(err, &e)
	})
	p.await(name, ekstypes.ClusterStatusActive)
	p.query("/aws/eks/" + name + "/cluster")

	p.do("upgrade", func(ctx context.Context) error {
		_, err := client.UpdateClusterVersion(ctx, &eks.UpdateClusterVersionInput{Name: &name,
			Version: aws.String("1.36")})
		return err
	}, func(error) bool { return true })
	upgraded := p.await(name, ekstypes.ClusterStatusActive)
	if *upgraded.Version != "1.36" {
		p.t.Errorf("after the upgrade the cluster has version %s", *upgraded.Version)
	}
	if !slices.ContainsFunc(upgraded.Logging.ClusterLogging, func(l ekstypes.LogSetup) bool {
		return *l.Enabled && slices.Contains(l.Types, ekstypes.LogTypeAudit)
	}) {
		p.t.Errorf("an acknowledged change is lost: logging is %s", harness.Text(upgraded.Logging))
	}
	if got := p.kubectl(config, "get", "configmap", "kept", "-o", "jsonpath={.data.written}"); got != "before" {
		p.t.Errorf("the ConfigMap now says %q", got)
	}

	p.do("delete", func(ctx context.Context) error {
		_, err := client.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: &name})
		return err
	}, func(error) bool { return true })
	p.await(name, "")
}

// query runs a Logs Insights query to its end.
func (p *phoenix) query(group string) {
	p.t.Helper()
	client := cloudwatchlogs.NewFromConfig(p.Config())
	var id *string
	p.do("start a query", func(ctx context.Context) error {
		out, err := client.StartQuery(ctx, &cloudwatchlogs.StartQueryInput{
			LogGroupName: &group, QueryString: aws.String("stats count(*) by verb"),
			StartTime: aws.Int64(time.Now().Add(-time.Hour).Unix()), EndTime: aws.Int64(time.Now().Unix()),
		})
		if err == nil {
			id = out.QueryId
		}
		return err
	}, func(error) bool { return false })
	eventually.Nil(p.t, "the query is complete", func() error {
		p.revive()
		out, err := client.GetQueryResults(context.Background(), &cloudwatchlogs.GetQueryResultsInput{QueryId: id})
		if err == nil && out.Status != logstypes.QueryStatusComplete {
			err = fmt.Errorf("it is %s", out.Status)
		}
		return err
	})
}

// kubectl repeats a command until it succeeds: the API server may be between two lives.
func (p *phoenix) kubectl(config string, args ...string) (out string) {
	p.t.Helper()
	err := eventually.Try(100*time.Millisecond, func() (err error) {
		p.revive()
		var errs string
		if out, errs, err = p.Try(config, "kubectl", args...); err != nil && !strings.Contains(errs, "AlreadyExists") {
			return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, errs)
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// kubeconfig returns the kubeconfig of a daemon that may be about to die because the cluster became ready.
func (p *phoenix) kubeconfig(cluster string) string {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), "kubeconfig")
	p.do("update-kubeconfig", func(context.Context) error {
		_, errs, err := p.Try("", "aws", "eks", "update-kubeconfig", "--name", cluster, "--kubeconfig", path)
		if err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	}, func(error) bool { return false })
	return path
}

// nothingLeft checks that no cluster left anything behind.
func (p *phoenix) nothingLeft() {
	p.t.Helper()
	for _, line := range p.Processes() {
		for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler",
			"cloud-controller-manager"} {
			if strings.Contains(line, component) {
				p.t.Errorf("left behind: %s", line)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(p.Dir, "clusters", "*")); err != nil || len(left) > 0 {
		p.t.Errorf("left behind: %v %v", left, err)
	}
	client := ec2.NewFromConfig(p.Config())
	never := func(error) bool { return false }
	var interfaces *ec2.DescribeNetworkInterfacesOutput // of a daemon that may be about to die of the deletion
	p.do("list interfaces", func(ctx context.Context) (err error) {
		interfaces, err = client.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{})
		return err
	}, never)
	if len(interfaces.NetworkInterfaces) > 0 {
		p.t.Errorf("left behind: %s", harness.Text(interfaces))
	}
	var groups *ec2.DescribeSecurityGroupsOutput
	p.do("list security groups", func(ctx context.Context) (err error) {
		groups, err = client.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{})
		return err
	}, never)
	for _, g := range groups.SecurityGroups {
		if strings.HasPrefix(*g.GroupName, "eks-cluster-sg-") {
			p.t.Errorf("left behind: %s", *g.GroupName)
		}
	}
}

// TestTheDaemonMayDieAnywhere lets the daemon die at every marked instruction in the life of a
// cluster: each time it is started again and dies at the next one that it comes to.
func TestTheDaemonMayDieAnywhere(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	d := harness.Start(t)
	p := &phoenix{Daemon: d, t: t, points: slices.DeleteFunc(crash.Points(), func(p string) bool {
		if p == "controlplane/upgrade-failing" {
			// only an upgrade that fails comes there: the controller's own tests do
			return true
		}
		if strings.HasPrefix(p, "controlplane/rotation-") { // likewise, when a cluster is a week old
			return true
		}
		// No instance lives in this test: TestTheDaemonMayDieInTheLifeOfAnInstance and the tests of network,
		// autoscaling and nodegroup die there. Nor has its cluster add-ons but those of the bootstrap: the tests of
		// addon die of the others. Images are made once for all clusters, and the tests of image die of that. Stacks have
		// TestTheDaemonMayDieInTheLifeOfAStack, load balancers TestTheDaemonMayDieInTheLifeOfALoadBalancer, volumes,
		// file systems and pods on Fargate the tests of their controllers.
		component, _, _ := strings.Cut(p, "/")
		return slices.Contains([]string{"machine", "network", "autoscaling", "image", "nodegroup", "addon",
			"stack", "volume", "rootvolume", "filesystem", "balancer", "logdelivery",
			"fargate"}, component)
	})}
	role, subnets := d.ClusterRole(), d.Subnets()
	d.Kill()
	p.start()
	// Where two things are done at once, a death at the one hides the other: it is met in the next life.
	for i := 0; i < 3 && len(p.points) > 0; i++ {
		p.life(fmt.Sprintf("mortal-%d", i), role, subnets)
		p.nothingLeft()
	}
	t.Logf("died at %d points: %v", len(p.visited), p.visited)
	if len(p.points) > 0 {
		t.Errorf("in three lives the daemon did not come to %v", p.points)
	}
}

// TestEveryProcessComesBack kills each process of a control plane, the etcd and the daemon.
func TestEveryProcessComesBack(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	p := &phoenix{Daemon: d, t: t}
	d.CreateCluster("phoenix", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("phoenix", ekstypes.ClusterStatusActive)
	config := d.Login("phoenix")
	p.kubectl(config, "create", "configmap", "kept", "--from-literal=a=b")
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"aws-cloud-controller-manager", "etcd", "endpoint"} {
		before := p.pid(name)
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if after := p.pid(name, before); after == before {
			t.Errorf("%s did not come back", name)
		}
		p.kubectl(config, "get", "configmap", "kept")
		// A ServiceAccount in a new namespace is the controller manager's work.
		p.kubectl(config, "create", "namespace", "after-"+name)
		p.kubectl(config, "-n", "after-"+name, "get", "serviceaccount", "default")
	}

	// The daemon's death and return touch nothing that runs.
	before := map[string]int{}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"aws-cloud-controller-manager", "etcd", "endpoint"} {
		before[name] = p.pid(name)
	}
	d.Kill()
	d.Serve()
	p.kubectl(config, "get", "configmap", "kept")
	for name, pid := range before {
		if after := p.pid(name); after != pid {
			t.Errorf("%s was %d before the daemon's restart and is %d after", name, pid, after)
		}
	}
	// What dies while the daemon is down comes back with it.
	d.Kill()
	victim := p.pid("kube-apiserver")
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.Serve()
	p.kubectl(config, "get", "configmap", "kept")
}

// pid waits for the process of that component, other than those in not.
func (p *phoenix) pid(component string, not ...int) (pid int) {
	p.t.Helper()
	eventually.Nil(p.t, component+" runs", func() error {
		for _, line := range p.Processes() {
			id, command, _ := strings.Cut(line, " ")
			words := strings.Fields(command)
			if len(words) < 2 || filepath.Base(words[0]) != component && words[1] != component {
				continue
			}
			n, err := strconv.Atoi(id)
			if err != nil {
				return err
			}
			if !slices.Contains(not, n) {
				pid = n
				return nil
			}
		}
		return fmt.Errorf("none runs but %v", not)
	})
	return pid
}
