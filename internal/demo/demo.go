// Package demo takes the guided tour of "coracle demo": a cluster with nodes and pods, access for another user, the
// audit log and an upgrade.
//
// It uses the real clients only, the AWS SDK over the network and kubectl, and shows for each step the command that
// does the same. The steps are in this file, those about nodes in nodes.go.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/audit"
	"github.com/coracle-eks/coracle/internal/environment"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

// Options configure a tour.
type Options struct {
	// AWS reaches the daemon as the root user of the account.
	AWS aws.Config
	// FindBundle finds the Kubernetes programs of a minor version (upstream.Bundles.Find).
	FindBundle func(minor string) (string, error)
	// Cluster is the name of the cluster that the tour creates.
	Cluster string
	// Keep leaves the cluster there at the end.
	Keep bool
	// Simulated reports that nothing runs in machines.
	Simulated bool
	// Exec runs a command inside the machine of an instance and returns its output.
	Exec func(ctx context.Context, instance string, command ...string) (string, error)
	// DataDirFlag is appended to the commands of coracle that the tour suggests, if they need it.
	DataDirFlag string
}

// Run takes the tour and prints it to w.
func Run(ctx context.Context, w io.Writer, o Options) error {
	t, err := newTour(w, o)
	if err != nil {
		return err
	}
	defer os.RemoveAll(t.scratch)
	steps := []func(context.Context) error{
		t.showCaller,
		t.createClusterRole,
		t.findSubnets,
		t.createCluster,
		t.showKubernetesUser,
		t.createObjects,
		t.createNodegroup,
		t.runPods,
		t.grantAccess,
		t.showAudit,
	}
	if t.canUpgrade {
		steps = append(steps, t.upgradeCluster, t.upgradeNodes)
	} else {
		steps = append(steps, t.offerUpgrade)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if o.Keep {
		t.explain("The cluster stays. kubectl reaches it after:", "aws eks update-kubeconfig --name "+o.Cluster)
		return nil
	}
	return t.deleteAll(ctx)
}

// tour is one run of the demo.
type tour struct {
	Options
	versions
	w       io.Writer
	role    string // the name of the cluster's role
	reader  string // the name of the role that gets read access
	scratch string // a directory for temporary files

	iam  *iam.Client
	ec2  *ec2.Client
	eks  *eks.Client
	sts  *sts.Client
	logs *cloudwatchlogs.Client

	roleARN   string
	readerARN string
	subnets   []string
	cluster   *ekstypes.Cluster // once it is ACTIVE
}

// versions are the Kubernetes versions of a tour.
type versions struct {
	from kubernetes.Version // of the new cluster
	kube string             // its program, whose kubectl is used
	// to is the next version, which the cluster is upgraded to if its program is built (canUpgrade).
	to         kubernetes.Version
	canUpgrade bool
}

// chooseVersions chooses among the versions that find finds: the default version, or the version nearest to it that can
// be upgraded, or the newest.
func chooseVersions(find func(minor string) (string, error)) (chosen versions, err error) {
	all := kubernetes.Versions()
	paths := make([]string, len(all)+1)
	for i, v := range all {
		path, err := find(v.Minor)
		if err != nil && !errors.Is(err, upstream.ErrNotBuilt) {
			return versions{}, err
		}
		paths[i] = path
	}
	for i, v := range all {
		switch {
		case paths[i] == "":
			continue
		case v.Minor == kubernetes.Default, chosen.kube == "",
			!chosen.canUpgrade && chosen.from.Minor != kubernetes.Default:
			chosen = versions{from: v, kube: paths[i], canUpgrade: paths[i+1] != ""}
			if i+1 < len(all) {
				chosen.to = all[i+1]
			}
		}
	}
	if chosen.kube == "" {
		return versions{}, errors.New("no version of Kubernetes is built yet")
	}
	return chosen, nil
}

func newTour(w io.Writer, o Options) (*tour, error) {
	t := &tour{Options: o, w: w, role: o.Cluster + "-cluster", reader: o.Cluster + "-reader"}
	var err error
	if t.versions, err = chooseVersions(o.FindBundle); err != nil {
		return nil, fmt.Errorf("%w: build it (about four minutes) with \"coracle bundles %s%s\"",
			err, kubernetes.Default, o.DataDirFlag)
	}
	t.iam, t.ec2, t.eks = iam.NewFromConfig(o.AWS), ec2.NewFromConfig(o.AWS), eks.NewFromConfig(o.AWS)
	t.sts, t.logs = sts.NewFromConfig(o.AWS), cloudwatchlogs.NewFromConfig(o.AWS)
	t.scratch, err = os.MkdirTemp("", "coracle-demo-")
	return t, err
}

// explain explains a step and shows the command that does the same.
func (t *tour) explain(text string, commands ...string) {
	fmt.Fprintf(t.w, "\n%s\n", text)
	for _, c := range commands {
		fmt.Fprintf(t.w, "  $ %s\n", c)
	}
}

// printResult prints the result of a step.
func (t *tour) printResult(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		fmt.Fprintf(t.w, "    %s\n", strings.TrimRight(line, "\n"))
	}
}

func (t *tour) showCaller(ctx context.Context) error {
	t.explain("Every call below is signed, verified and authorized, as on AWS. Who are we?",
		"aws sts get-caller-identity")
	out, err := t.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return err
	}
	t.printResult(aws.ToString(out.Arn))
	return nil
}

const (
	clusterPolicy = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
	// trustPolicy is the trust policy of a role, given the principal that assumes it.
	trustPolicy = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{%s},"Action":"sts:AssumeRole"}]}`
)

var (
	clusterTrust = fmt.Sprintf(trustPolicy, `"Service":"eks.amazonaws.com"`)
	nodeTrust    = fmt.Sprintf(trustPolicy, `"Service":"ec2.amazonaws.com"`)
)

func (t *tour) createClusterRole(ctx context.Context) (err error) {
	t.explain("A cluster acts in your account under a role that trusts EKS.",
		"aws iam create-role --role-name "+t.role+" --assume-role-policy-document '"+clusterTrust+"'",
		"aws iam attach-role-policy --role-name "+t.role+" --policy-arn "+clusterPolicy)
	if t.roleARN, err = t.ensureRole(ctx, t.role, clusterTrust); err != nil {
		return err
	}
	_, err = t.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{
		RoleName: &t.role, PolicyArn: aws.String(clusterPolicy),
	})
	if err != nil {
		return err
	}
	t.printResult(t.roleARN)
	return nil
}

// ensureRole creates a role, unless it exists from an earlier tour, and returns its ARN.
func (t *tour) ensureRole(ctx context.Context, name, trust string) (string, error) {
	made, err := t.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &trust})
	if err == nil {
		return *made.Role.Arn, nil
	}
	var exists *iamtypes.EntityAlreadyExistsException
	if !errors.As(err, &exists) {
		return "", err
	}
	found, err := t.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
	if err != nil {
		return "", err
	}
	return *found.Role.Arn, nil
}

func (t *tour) findSubnets(ctx context.Context) error {
	t.explain("The account has a default VPC with a subnet in each availability zone.",
		"aws ec2 describe-subnets --query 'Subnets[].[SubnetId,AvailabilityZone,CidrBlock]'")
	out, err := t.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil {
		return err
	}
	zones := map[string]string{}
	for _, s := range out.Subnets {
		if aws.ToBool(s.DefaultForAz) {
			zones[*s.AvailabilityZone] = *s.SubnetId
			t.printResult(fmt.Sprintf("%s  %s  %s", *s.SubnetId, *s.AvailabilityZone, *s.CidrBlock))
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		t.subnets = append(t.subnets, zones[zone])
	}
	if len(t.subnets) < 2 {
		return fmt.Errorf("the default VPC has subnets in %d zones, and a cluster needs two", len(t.subnets))
	}
	t.subnets = t.subnets[:2]
	return nil
}

func (t *tour) createCluster(ctx context.Context) error {
	t.explain(
		"Now the cluster: upstream's own API server, controller manager and scheduler. "+
			"Its audit log goes to CloudWatch Logs.",
		fmt.Sprintf(
			"aws eks create-cluster --name %s --kubernetes-version %s --role-arn %s --resources-vpc-config subnetIds=%s"+
				" --access-config authenticationMode=API_AND_CONFIG_MAP"+
				" --logging '{\"clusterLogging\":[{\"types\":[\"audit\"],\"enabled\":true}]}'",
			t.Cluster,
			t.from.Minor,
			t.roleARN,
			strings.Join(t.subnets, ","),
		),
		"aws eks wait cluster-active --name "+t.Cluster,
	)
	began := time.Now()
	_, err := t.eks.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: &t.Cluster, Version: &t.from.Minor, RoleArn: &t.roleARN,
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: t.subnets},
		AccessConfig: &ekstypes.CreateAccessConfigRequest{
			AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
		Logging: &ekstypes.Logging{
			ClusterLogging: []ekstypes.LogSetup{{Types: []ekstypes.LogType{ekstypes.LogTypeAudit},
				Enabled: aws.Bool(true)}},
		},
	})
	var exists *ekstypes.ResourceInUseException
	if errors.As(err, &exists) {
		return fmt.Errorf(
			"there is a cluster %q already: choose another name with \"coracle demo --name NAME\", "+
				"or delete it with \"aws eks delete-cluster --name %s\"",
			t.Cluster,
			t.Cluster,
		)
	}
	if err != nil {
		return err
	}
	cluster, err := t.waitForCluster(ctx, ekstypes.ClusterStatusActive)
	if err != nil {
		return err
	}
	t.printResult(fmt.Sprintf("ACTIVE after %s at %s", time.Since(began).Round(10*time.Millisecond), *cluster.Endpoint))
	t.cluster = cluster
	return nil
}

// waitForCluster polls as "aws eks wait" does, only faster.
func (t *tour) waitForCluster(ctx context.Context, want ekstypes.ClusterStatus) (*ekstypes.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		out, err := t.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &t.Cluster})
		if err != nil {
			return nil, err
		}
		switch out.Cluster.Status {
		case want:
			return out.Cluster, nil
		case ekstypes.ClusterStatusFailed:
			reason := ""
			if out.Cluster.Health != nil {
				for _, issue := range out.Cluster.Health.Issues {
					reason += ": " + aws.ToString(issue.Message)
				}
			}
			return nil, fmt.Errorf("cluster %s has FAILED%s", t.Cluster, reason)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cluster %s is still %s: %w", t.Cluster, out.Cluster.Status, ctx.Err())
		case <-poll.C:
		}
	}
}

// kubeconfig returns what "aws eks update-kubeconfig" would write, with a token in place of the aws command, which the
// host may lack.
func kubeconfig(c *ekstypes.Cluster, token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: demo
clusters: [{name: demo, cluster: {server: %q, certificate-authority-data: %s}}]
contexts: [{name: demo, context: {cluster: demo, user: demo}}]
users: [{name: demo, user: {token: %q}}]
`, *c.Endpoint, *c.CertificateAuthority.Data, token)
}

// kubectl runs upstream's kubectl as the caller of client, and shows what it prints.
func (t *tour) kubectl(ctx context.Context, client *sts.Client, args ...string) error {
	out, err := t.runKubectl(ctx, client, args...)
	t.printResult(out)
	if err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

func (t *tour) runKubectl(ctx context.Context, client *sts.Client, args ...string) (string, error) {
	token, err := bearerToken(ctx, client, t.Cluster)
	if err != nil {
		return "", err
	}
	// Everybody on this host sees the arguments of a command: the token goes by a file.
	config, err := os.CreateTemp(t.scratch, "kubeconfig-") // mode 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(config.Name())
	_, err = config.WriteString(kubeconfig(t.cluster, token))
	if err := errors.Join(err, config.Close()); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, t.kube, append([]string{"kubectl", "--kubeconfig", config.Name()}, args...)...)
	cmd.Env = append(environment.ForGo(), "HOME="+t.scratch)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (t *tour) showKubernetesUser(ctx context.Context) error {
	t.explain("kubectl shows an IAM identity at the door, and is let in as the cluster's creator.",
		"aws eks update-kubeconfig --name "+t.Cluster,
		"kubectl auth whoami")
	return t.kubectl(ctx, t.sts, "auth", "whoami")
}

func (t *tour) createObjects(ctx context.Context) error {
	t.explain("It is Kubernetes, to be used as such.",
		"kubectl create namespace harbour",
		"kubectl --namespace harbour create configmap crew --from-literal=captain=ahab",
		"kubectl --namespace harbour get configmap,serviceaccount")
	if out, err := t.runKubectl(ctx, t.sts, "create", "namespace", "harbour"); err != nil {
		return fmt.Errorf("create a namespace: %w: %s", err, out)
	}
	crew := []string{"--namespace", "harbour", "create", "configmap", "crew", "--from-literal=captain=ahab"}
	if out, err := t.runKubectl(ctx, t.sts, crew...); err != nil {
		return fmt.Errorf("create a ConfigMap: %w: %s", err, out)
	}
	return t.kubectl(ctx, t.sts, "--namespace", "harbour", "get", "configmap,serviceaccount")
}

func (t *tour) grantAccess(ctx context.Context) (err error) {
	caller, err := t.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return err
	}
	trust := fmt.Sprintf(trustPolicy, `"AWS":"arn:aws:iam::`+*caller.Account+`:root"`)
	if t.readerARN, err = t.ensureRole(ctx, t.reader, trust); err != nil {
		return err
	}
	const policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
	t.explain(
		"An access entry lets another role look at one namespace, and no further.",
		"aws eks create-access-entry --cluster-name "+t.Cluster+" --principal-arn "+t.readerARN,
		"aws eks associate-access-policy --cluster-name "+t.Cluster+" --principal-arn "+t.readerARN+" --policy-arn "+
			policy+
			" --access-scope type=namespace,namespaces=harbour",
	)
	entry := &eks.CreateAccessEntryInput{ClusterName: &t.Cluster, PrincipalArn: &t.readerARN}
	if _, err := t.eks.CreateAccessEntry(ctx, entry); err != nil {
		return err
	}
	_, err = t.eks.AssociateAccessPolicy(ctx, &eks.AssociateAccessPolicyInput{
		ClusterName: &t.Cluster, PrincipalArn: &t.readerARN, PolicyArn: aws.String(policy),
		AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeNamespace, Namespaces: []string{"harbour"}},
	})
	if err != nil {
		return err
	}
	session, err := t.sts.AssumeRole(
		ctx,
		&sts.AssumeRoleInput{RoleArn: &t.readerARN, RoleSessionName: aws.String("ishmael")},
	)
	if err != nil {
		return err
	}
	c := session.Credentials
	config := t.AWS.Copy()
	config.Credentials = credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
	reader := sts.NewFromConfig(config)
	t.explain(
		"As that role:",
		"kubectl --namespace harbour get configmap crew",
		"kubectl --namespace harbour delete configmap crew",
	)
	if err := t.kubectl(ctx, reader, "--namespace", "harbour", "get", "configmap", "crew"); err != nil {
		return err
	}
	out, err := t.runKubectl(ctx, reader, "--namespace", "harbour", "delete", "configmap", "crew")
	if err == nil {
		return errors.New("the reader could delete a ConfigMap")
	}
	t.printResult(out)
	return nil
}

// showAudit shows the audit timeline of the ConfigMap, once the log has its end.
func (t *tour) showAudit(ctx context.Context) error {
	t.explain(
		"Who did that? The audit log tells, a moment later: Logs Insights answers any question about it, "+
			"and this command the usual one.",
		"coracle audit configmap/crew -n harbour --cluster "+t.Cluster,
	)
	targets, err := audit.Targets([]string{"configmap/crew"}, "harbour")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var timeline, notes strings.Builder
		err := audit.Run(ctx, &timeline, &notes, t.eks, t.logs, audit.Options{
			Targets: targets, Cluster: t.Cluster, Now: time.Now, Poll: 25 * time.Millisecond,
			Style: audit.Style{Width: 80},
		})
		if ctx.Err() != nil {
			return fmt.Errorf("the refused deletion is not in the audit log: %w", ctx.Err())
		}
		if err == nil && strings.Contains(timeline.String(), " 403 ") {
			t.printResult(timeline.String())
			return nil
		}
	}
}

func (t *tour) upgradeCluster(ctx context.Context) error {
	t.explain(fmt.Sprintf("An upgrade to %s, in place. Objects stay.", t.to.Minor),
		"aws eks update-cluster-version --name "+t.Cluster+" --kubernetes-version "+t.to.Minor,
		"aws eks wait cluster-active --name "+t.Cluster,
		"kubectl version", "kubectl --namespace harbour get configmap crew")
	began := time.Now()
	update := &eks.UpdateClusterVersionInput{Name: &t.Cluster, Version: &t.to.Minor}
	if _, err := t.eks.UpdateClusterVersion(ctx, update); err != nil {
		return err
	}
	cluster, err := t.waitForCluster(ctx, ekstypes.ClusterStatusActive)
	if err != nil {
		return err
	}
	if got := aws.ToString(cluster.Version); got != t.to.Minor {
		return fmt.Errorf(
			"the cluster is at version %s after an upgrade to %s: see aws eks list-updates --name %s",
			got, t.to.Minor, t.Cluster,
		)
	}
	t.printResult(fmt.Sprintf("ACTIVE after %s", time.Since(began).Round(10*time.Millisecond)))
	if err := t.kubectl(ctx, t.sts, "version"); err != nil {
		return err
	}
	return t.kubectl(ctx, t.sts, "--namespace", "harbour", "get", "configmap", "crew")
}

// offerUpgrade prints how to see what this tour leaves out.
func (t *tour) offerUpgrade(context.Context) error {
	if t.to.Minor == "" {
		t.explain("Kubernetes " + t.from.Minor + " is the newest version here, so this tour shows no upgrade.")
		return nil
	}
	t.explain(
		"Kubernetes "+t.to.Minor+" is not built yet, so this tour shows no upgrade. To build it (about four minutes):",
		"coracle bundles "+t.to.Minor+t.DataDirFlag,
	)
	return nil
}

func (t *tour) deleteAll(ctx context.Context) error {
	if err := t.deleteNodegroup(ctx); err != nil {
		return err
	}
	t.explain("Then the cluster.", "aws eks delete-cluster --name "+t.Cluster)
	if _, err := t.eks.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: &t.Cluster}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		_, err := t.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &t.Cluster})
		var gone *ekstypes.ResourceNotFoundException
		if errors.As(err, &gone) {
			break
		}
		if err != nil {
			return err
		}
		<-poll.C
	}
	group := "/aws/eks/" + t.Cluster + "/cluster"
	t.explain("Its logs outlive it, as on AWS.", "aws logs delete-log-group --log-group-name "+group)
	if _, err := t.logs.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: &group}); err != nil {
		return err
	}
	_, err := t.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{
		RoleName: &t.role, PolicyArn: aws.String(clusterPolicy),
	})
	if err != nil {
		return err
	}
	for _, role := range []string{t.role, t.reader} {
		if _, err := t.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &role}); err != nil {
			return err
		}
	}
	t.explain("docs/differences-from-aws.md says what is missing or otherwise.")
	return nil
}
