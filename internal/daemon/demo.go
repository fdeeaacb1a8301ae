package daemon

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
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/environment"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

// Demo walks through what works, step by step, with the real clients: the AWS SDK over the
// network, and kubectl. What it shows of nodes is in demonodes.go.
func Demo(ctx context.Context, w io.Writer, dir datadir.Dir, bundles, cluster string, keep bool) error {
	if _, held, err := dir.Holder(); err != nil {
		return err
	} else if !held {
		return notRunning(dir)
	}
	d, err := newDemo(w, dir, bundles, cluster)
	if err != nil {
		return err
	}
	defer os.RemoveAll(d.scratch)
	steps := []func(context.Context) error{
		d.introduce, d.makeRole, d.findSubnets, d.createCluster, d.greet, d.useIt, d.createNodegroup, d.runPods, d.letSomebodyIn, d.whoDidIt,
	}
	if d.canUpgrade {
		steps = append(steps, d.upgrade, d.upgradeNodes)
	} else {
		steps = append(steps, d.offerUpgrade)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if keep {
		d.say("The cluster stays. kubectl reaches it after:", "aws eks update-kubeconfig --name "+cluster)
		return nil
	}
	return d.cleanUp(ctx)
}

// demo is one walk.
type demo struct {
	w       io.Writer
	dir     datadir.Dir
	real    bool // machines are; else they are simulated
	cluster string
	role    string // of the cluster
	reader  string // of somebody who may look
	demoVersions
	scratch string

	region   string
	endpoint string
	root     datadir.Credentials
	iam      *iam.Client
	ec2      *ec2.Client
	eks      *eks.Client
	sts      *sts.Client
	logs     *cloudwatchlogs.Client

	roleARN   string
	readerARN string
	subnets   []string
	described *ekstypes.Cluster // once it is ACTIVE
}

// demoVersions are the Kubernetes versions of a tour.
type demoVersions struct {
	from kubernetes.Version // of the new cluster
	kube string             // its program, whose kubectl is used
	// to is the next version, which the cluster is upgraded to if its program is built (canUpgrade).
	to         kubernetes.Version
	canUpgrade bool
}

// chooseDemoVersions chooses among the versions that find finds: the default version, or the version nearest to it that can be
// upgraded, or the newest.
func chooseDemoVersions(find func(minor string) (string, error)) (demoVersions, error) {
	versions := kubernetes.Versions()
	paths := make([]string, len(versions)+1)
	for i, v := range versions {
		path, err := find(v.Minor)
		if err != nil && !errors.Is(err, upstream.ErrNotBuilt) {
			return demoVersions{}, err
		}
		paths[i] = path
	}
	var chosen demoVersions
	for i, v := range versions {
		switch {
		case paths[i] == "":
			continue
		case v.Minor == kubernetes.Default, chosen.kube == "", !chosen.canUpgrade && chosen.from.Minor != kubernetes.Default:
			chosen = demoVersions{from: v, kube: paths[i], canUpgrade: paths[i+1] != ""}
			if i+1 < len(versions) {
				chosen.to = versions[i+1]
			}
		}
	}
	if chosen.kube == "" {
		return demoVersions{}, errors.New("no version of Kubernetes is built yet")
	}
	return chosen, nil
}

func newDemo(w io.Writer, dir datadir.Dir, bundles, cluster string) (*demo, error) {
	s, err := dir.ReadSettings()
	if err != nil {
		return nil, err
	}
	all, err := dir.ReadCredentials()
	if err != nil {
		return nil, err
	}
	d := &demo{
		w: w, dir: dir, real: realMachines(s), cluster: cluster, role: cluster + "-cluster", reader: cluster + "-reader",
		region: s.Region, endpoint: EndpointURL(s.Listen), root: all[s.Account],
	}
	if d.demoVersions, err = chooseDemoVersions(upstream.OpenBundles(upstream.Options{Dir: bundles, DataDir: string(dir)}).Find); err != nil {
		return nil, fmt.Errorf("%w: build it (about four minutes) with \"coracle bundles %s%s\"", err, kubernetes.Default, dataDirFlag(dir))
	}
	config := d.config(d.root.AccessKeyID, d.root.SecretAccessKey, "")
	d.iam, d.ec2, d.eks, d.sts = iam.NewFromConfig(config), ec2.NewFromConfig(config), eks.NewFromConfig(config), sts.NewFromConfig(config)
	d.logs = cloudwatchlogs.NewFromConfig(config)
	d.scratch, err = os.MkdirTemp("", "coracle-demo-")
	return d, err
}

func (d *demo) config(id, secret, session string) aws.Config {
	return aws.Config{
		Region:       d.region,
		BaseEndpoint: &d.endpoint,
		Credentials:  credentials.NewStaticCredentialsProvider(id, secret, session),
	}
}

// say explains a step and shows the command that does the same.
func (d *demo) say(text string, commands ...string) {
	fmt.Fprintf(d.w, "\n%s\n", text)
	for _, c := range commands {
		fmt.Fprintf(d.w, "  $ %s\n", c)
	}
}

// answer shows what came of it.
func (d *demo) answer(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		fmt.Fprintf(d.w, "    %s\n", strings.TrimRight(line, "\n"))
	}
}

func (d *demo) introduce(ctx context.Context) error {
	d.say("Every call below is signed, verified and authorised, as on AWS. Who are we?", "aws sts get-caller-identity")
	out, err := d.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return err
	}
	d.answer(aws.ToString(out.Arn))
	return nil
}

const (
	clusterTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	readerTrust  = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"%s"},"Action":"sts:AssumeRole"}]}`
)

func (d *demo) makeRole(ctx context.Context) (err error) {
	d.say("A cluster acts in your account under a role that trusts EKS.",
		"aws iam create-role --role-name "+d.role+" --assume-role-policy-document '"+clusterTrust+"'",
		"aws iam attach-role-policy --role-name "+d.role+" --policy-arn arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
	if d.roleARN, err = d.ensureRole(ctx, d.role, clusterTrust); err != nil {
		return err
	}
	_, err = d.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{
		RoleName: &d.role, PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"),
	})
	if err != nil {
		return err
	}
	d.answer(d.roleARN)
	return nil
}

// ensureRole makes a role; one from an earlier tour is as good.
func (d *demo) ensureRole(ctx context.Context, name, trust string) (string, error) {
	made, err := d.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &trust})
	if err == nil {
		return *made.Role.Arn, nil
	}
	var exists *iamtypes.EntityAlreadyExistsException
	if !errors.As(err, &exists) {
		return "", err
	}
	found, err := d.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
	if err != nil {
		return "", err
	}
	return *found.Role.Arn, nil
}

func (d *demo) findSubnets(ctx context.Context) error {
	d.say("The account has a default VPC with a subnet in each availability zone.",
		"aws ec2 describe-subnets --query 'Subnets[].[SubnetId,AvailabilityZone,CidrBlock]'")
	out, err := d.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil {
		return err
	}
	zones := map[string]string{}
	for _, s := range out.Subnets {
		if aws.ToBool(s.DefaultForAz) {
			zones[*s.AvailabilityZone] = *s.SubnetId
			d.answer(fmt.Sprintf("%s  %s  %s", *s.SubnetId, *s.AvailabilityZone, *s.CidrBlock))
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		d.subnets = append(d.subnets, zones[zone])
	}
	if len(d.subnets) < 2 {
		return fmt.Errorf("the default VPC has subnets in %d zones, and a cluster needs two", len(d.subnets))
	}
	d.subnets = d.subnets[:2]
	return nil
}

func (d *demo) createCluster(ctx context.Context) error {
	d.say("Now the cluster: upstream's own API server, controller manager and scheduler. Its audit log goes to CloudWatch Logs.",
		fmt.Sprintf("aws eks create-cluster --name %s --kubernetes-version %s --role-arn %s --resources-vpc-config subnetIds=%s"+
			" --logging '{\"clusterLogging\":[{\"types\":[\"audit\"],\"enabled\":true}]}'",
			d.cluster, d.from.Minor, d.roleARN, strings.Join(d.subnets, ",")),
		"aws eks wait cluster-active --name "+d.cluster)
	began := time.Now()
	_, err := d.eks.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: &d.cluster, Version: &d.from.Minor, RoleArn: &d.roleARN,
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: d.subnets},
		Logging:            &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Types: []ekstypes.LogType{ekstypes.LogTypeAudit}, Enabled: aws.Bool(true)}}},
	})
	var exists *ekstypes.ResourceInUseException
	if errors.As(err, &exists) {
		return fmt.Errorf("there is a cluster %q already: choose another name with \"coracle demo --name NAME\", or delete it with \"aws eks delete-cluster --name %s\"", d.cluster, d.cluster)
	}
	if err != nil {
		return err
	}
	cluster, err := d.await(ctx, ekstypes.ClusterStatusActive)
	if err != nil {
		return err
	}
	d.answer(fmt.Sprintf("ACTIVE after %s at %s", time.Since(began).Round(10*time.Millisecond), *cluster.Endpoint))
	d.described = cluster
	return nil
}

// await polls as "aws eks wait" does, only faster.
func (d *demo) await(ctx context.Context, want ekstypes.ClusterStatus) (*ekstypes.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		out, err := d.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &d.cluster})
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
			return nil, fmt.Errorf("cluster %s has FAILED%s", d.cluster, reason)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cluster %s is still %s: %w", d.cluster, out.Cluster.Status, ctx.Err())
		case <-poll.C:
		}
	}
}

// kubeconfig is what "aws eks update-kubeconfig" would write, with this program's token in place of the aws command,
// which the host may lack.
func kubeconfig(c *ekstypes.Cluster, token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: demo
clusters: [{name: demo, cluster: {server: %q, certificate-authority-data: %s}}]
contexts: [{name: demo, context: {cluster: demo, user: demo}}]
users: [{name: demo, user: {token: %q}}]
`, *c.Endpoint, *c.CertificateAuthority.Data, token)
}

// token is what "aws eks get-token" makes: a presigned GetCallerIdentity.
func (d *demo) token(ctx context.Context, client *sts.Client) (string, error) {
	request, err := sts.NewPresignClient(client).PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}, presignFor(d.cluster))
	if err != nil {
		return "", err
	}
	return encodeToken(request.URL), nil
}

// kubectl runs upstream's kubectl as the caller of client, shows it and what it answers.
func (d *demo) kubectl(ctx context.Context, client *sts.Client, args ...string) error {
	out, err := d.runKubectl(ctx, client, "", args...)
	d.answer(out)
	if err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

func (d *demo) runKubectl(ctx context.Context, client *sts.Client, input string, args ...string) (string, error) {
	token, err := d.token(ctx, client)
	if err != nil {
		return "", err
	}
	// Everybody on this host sees the arguments of a command: the token goes by a file.
	config, err := os.CreateTemp(d.scratch, "kubeconfig-") // mode 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(config.Name())
	_, err = config.WriteString(kubeconfig(d.described, token))
	if err := errors.Join(err, config.Close()); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, d.kube, append([]string{"kubectl", "--kubeconfig", config.Name()}, args...)...)
	cmd.Env = append(environment.ForGo(), "HOME="+d.scratch)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (d *demo) greet(ctx context.Context) error {
	d.say("kubectl shows an IAM identity at the door, and is let in as the cluster's creator.",
		"aws eks update-kubeconfig --name "+d.cluster,
		"kubectl auth whoami")
	return d.kubectl(ctx, d.sts, "auth", "whoami")
}

func (d *demo) useIt(ctx context.Context) error {
	d.say("It is Kubernetes, to be used as such.",
		"kubectl create namespace harbour",
		"kubectl --namespace harbour create configmap crew --from-literal=captain=ahab",
		"kubectl --namespace harbour get configmap,serviceaccount")
	if out, err := d.runKubectl(ctx, d.sts, "", "create", "namespace", "harbour"); err != nil {
		return fmt.Errorf("create a namespace: %w: %s", err, out)
	}
	if out, err := d.runKubectl(ctx, d.sts, "", "--namespace", "harbour", "create", "configmap", "crew", "--from-literal=captain=ahab"); err != nil {
		return fmt.Errorf("create a ConfigMap: %w: %s", err, out)
	}
	return d.kubectl(ctx, d.sts, "--namespace", "harbour", "get", "configmap,serviceaccount")
}

func (d *demo) letSomebodyIn(ctx context.Context) (err error) {
	caller, err := d.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return err
	}
	if d.readerARN, err = d.ensureRole(ctx, d.reader, fmt.Sprintf(readerTrust, "arn:aws:iam::"+*caller.Account+":root")); err != nil {
		return err
	}
	const policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
	d.say("An access entry lets another role look at one namespace, and no further.",
		"aws eks create-access-entry --cluster-name "+d.cluster+" --principal-arn "+d.readerARN,
		"aws eks associate-access-policy --cluster-name "+d.cluster+" --principal-arn "+d.readerARN+" --policy-arn "+policy+" --access-scope type=namespace,namespaces=harbour")
	if _, err := d.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: &d.cluster, PrincipalArn: &d.readerARN}); err != nil {
		return err
	}
	_, err = d.eks.AssociateAccessPolicy(ctx, &eks.AssociateAccessPolicyInput{
		ClusterName: &d.cluster, PrincipalArn: &d.readerARN, PolicyArn: aws.String(policy),
		AccessScope: &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeNamespace, Namespaces: []string{"harbour"}},
	})
	if err != nil {
		return err
	}
	session, err := d.sts.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &d.readerARN, RoleSessionName: aws.String("ishmael")})
	if err != nil {
		return err
	}
	c := session.Credentials
	reader := sts.NewFromConfig(d.config(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken))
	d.say("As that role:", "kubectl --namespace harbour get configmap crew", "kubectl --namespace harbour delete configmap crew")
	if err := d.kubectl(ctx, reader, "--namespace", "harbour", "get", "configmap", "crew"); err != nil {
		return err
	}
	out, err := d.runKubectl(ctx, reader, "", "--namespace", "harbour", "delete", "configmap", "crew")
	if err == nil {
		return errors.New("the reader could delete a ConfigMap")
	}
	d.answer(out)
	return nil
}

// whoDidIt shows the story of the ConfigMap, once the log has its end.
func (d *demo) whoDidIt(ctx context.Context) error {
	d.say("Who did that? The audit log tells, a moment later: Logs Insights answers any question about it, and this command the usual one.",
		"coracle audit configmap/crew -n harbour --cluster "+d.cluster)
	targets, err := audit.Targets([]string{"configmap/crew"}, "harbour")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var story, notes strings.Builder
		err := audit.Run(ctx, &story, &notes, d.eks, d.logs, audit.Options{
			Targets: targets, Cluster: d.cluster, Now: time.Now, Poll: 25 * time.Millisecond, Style: audit.Style{Width: 80},
		})
		if ctx.Err() != nil {
			return fmt.Errorf("the refused deletion is not in the audit log: %w", ctx.Err())
		}
		if err == nil && strings.Contains(story.String(), " 403 ") {
			d.answer(story.String())
			return nil
		}
	}
}

func (d *demo) upgrade(ctx context.Context) error {
	d.say(fmt.Sprintf("An upgrade to %s, in place. Objects stay.", d.to.Minor),
		"aws eks update-cluster-version --name "+d.cluster+" --kubernetes-version "+d.to.Minor,
		"aws eks wait cluster-active --name "+d.cluster,
		"kubectl version", "kubectl --namespace harbour get configmap crew")
	began := time.Now()
	if _, err := d.eks.UpdateClusterVersion(ctx, &eks.UpdateClusterVersionInput{Name: &d.cluster, Version: &d.to.Minor}); err != nil {
		return err
	}
	cluster, err := d.await(ctx, ekstypes.ClusterStatusActive)
	if err != nil {
		return err
	}
	if got := aws.ToString(cluster.Version); got != d.to.Minor {
		return fmt.Errorf("the cluster is at version %s after an upgrade to %s: see aws eks list-updates --name %s", got, d.to.Minor, d.cluster)
	}
	d.answer(fmt.Sprintf("ACTIVE after %s", time.Since(began).Round(10*time.Millisecond)))
	if err := d.kubectl(ctx, d.sts, "version"); err != nil {
		return err
	}
	return d.kubectl(ctx, d.sts, "--namespace", "harbour", "get", "configmap", "crew")
}

// offerUpgrade says how to see what this tour leaves out.
func (d *demo) offerUpgrade(context.Context) error {
	if d.to.Minor == "" {
		d.say("Kubernetes " + d.from.Minor + " is the newest version here, so this tour shows no upgrade.")
		return nil
	}
	d.say("Kubernetes "+d.to.Minor+" is not built yet, so this tour shows no upgrade. To build it (about four minutes):",
		"coracle bundles "+d.to.Minor+dataDirFlag(d.dir))
	return nil
}

func (d *demo) cleanUp(ctx context.Context) error {
	if err := d.deleteNodegroup(ctx); err != nil {
		return err
	}
	d.say("Then the cluster.", "aws eks delete-cluster --name "+d.cluster)
	if _, err := d.eks.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: &d.cluster}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		_, err := d.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &d.cluster})
		var gone *ekstypes.ResourceNotFoundException
		if errors.As(err, &gone) {
			break
		}
		if err != nil {
			return err
		}
		<-poll.C
	}
	group := "/aws/eks/" + d.cluster + "/cluster"
	d.say("Its logs outlive it, as on AWS.", "aws logs delete-log-group --log-group-name "+group)
	if _, err := d.logs.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: &group}); err != nil {
		return err
	}
	for _, detach := range []struct{ role, policy string }{{d.role, "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"}} {
		if _, err := d.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: &detach.role, PolicyArn: &detach.policy}); err != nil {
			return err
		}
	}
	for _, role := range []string{d.role, d.reader} {
		if _, err := d.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &role}); err != nil {
			return err
		}
	}
	d.say("docs/differences-from-aws.md says what is missing or otherwise.")
	return nil
}
