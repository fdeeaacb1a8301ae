package facts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/kubernetes"
	"github.com/coracle-eks/coracle/test/harness"
)

// The commands with which the fixtures are made. Facts about their answers ask the same.
const (
	createCluster = "aws eks create-cluster --name $CLUSTER --role-arn $ROLE --resources-vpc-config subnetIds=$SUBNETS"
	withEntries   = createCluster + " --access-config authenticationMode=API_AND_CONFIG_MAP"
	enableAudit   = "aws eks update-cluster-config --name $CLUSTER --logging " +
		`'{"clusterLogging":[{"types":["audit"],"enabled":true}]}'`
	createNodegroup = "aws eks create-nodegroup --cluster-name $CLUSTER --nodegroup-name $NODEGROUP " +
		"--node-role $NODE_ROLE --subnets $SUBNET"
)

// The policies of the examples of the command line for simulations.
const (
	timePolicy = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"dynamodb:*","Resource":"*",` +
		`"Condition":{"DateGreaterThan":{"aws:CurrentTime":"2018-08-16T12:00:00Z"}}}}`
	namePolicy = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"dynamodb:*",` +
		`"Resource":"arn:aws:dynamodb:us-west-2:123456789012:table/${aws:username}",` +
		`"Condition":{"DateGreaterThan":{"aws:CurrentTime":"2015-08-16T12:00:00Z"}}}}`
)

// fixture is where facts are asked.
type fixture struct {
	*harness.Daemon
	name       State
	binary     string // the path of coracle
	kubeconfig string
	variables  map[string]string

	mu      sync.Mutex
	answers map[string]Answer
}

func TestFacts(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	byState := map[State][]Fact{}
	for _, f := range load(t) {
		if f.AppliesTo(kubernetes.Default) {
			byState[f.On] = append(byState[f.On], f)
		}
	}
	d := harness.Start(t)
	subnets := d.Subnets()
	shared := map[string]string{
		"ROLE": d.ClusterRole(), "NODE_ROLE": "arn:aws:iam::111122223333:role/node", "ACCOUNT": "111122223333",
		"REGION": harness.Region, "VERSION": kubernetes.Default, "SUBNET": subnets[0],
		"SUBNETS": strings.Join(subnets, ","), "TIME_POLICY": timePolicy, "NAME_POLICY": namePolicy,
	}
	createNodeRole(d)
	t.Run("fixtures", func(t *testing.T) { // ends when all have ended
		for _, name := range []State{Nodes, Plain, API, Empty} { // the longest first
			t.Run(string(name), func(t *testing.T) {
				t.Parallel()
				w := &fixture{Daemon: d, name: name, binary: harness.Binary(t), variables: maps.Clone(shared),
					answers: map[string]Answer{}}
				w.create(t)
				w.compare(t, byState[name])
			})
		}
	})
}

func createNodeRole(d *harness.Daemon) {
	d.AWS(nil, "iam", "create-role", "--role-name", "node", "--assume-role-policy-document",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},`+
			`"Action":"sts:AssumeRole"}]}`)
	for _, policy := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy",
		"AmazonEC2ContainerRegistryPullOnly"} {
		d.AWS(nil, "iam", "attach-role-policy", "--role-name", "node", "--policy-arn",
			"arn:aws:iam::aws:policy/"+policy)
	}
}

// create makes the fixture.
func (w *fixture) create(t *testing.T) {
	t.Helper()
	switch w.name {
	case Empty:
		w.variables["REGION"] = "us-west-2"
		return
	case API:
		return
	}
	w.variables["CLUSTER"] = string(w.name)
	create := createCluster
	if w.name == Nodes {
		create = withEntries
	}
	w.must(t, create)
	c := w.AwaitStatus(string(w.name), "ACTIVE")
	host, _ := strings.CutPrefix(*c.Endpoint, "https://")
	w.variables["HOST"] = host
	w.variables["VPC"] = *c.ResourcesVpcConfig.VpcId
	w.variables["GROUP"] = *c.ResourcesVpcConfig.ClusterSecurityGroupId
	if w.name == Plain {
		w.kubeconfig = w.Login(string(w.name))
		return
	}
	w.must(t, enableAudit)
	w.AwaitStatus(string(w.name), "ACTIVE")
	w.kubeconfig = w.Login(string(w.name))
	w.variables["NODEGROUP"] = "workers"
	w.must(t, createNodegroup)
	w.Run("", "aws", "eks", "wait", "nodegroup-active", "--cluster-name", string(w.name), "--nodegroup-name", "workers")
	var nodes struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ ProviderID string }
		}
	}
	out := w.Run(w.kubeconfig, "kubectl", "get", "nodes", "-o", "json")
	if err := json.Unmarshal([]byte(out), &nodes); err != nil || len(nodes.Items) != 2 {
		t.Fatalf("an active group of 2 has the nodes %s (%v)", out, err)
	}
	var group struct {
		Nodegroup struct {
			Resources struct{ AutoScalingGroups []struct{ Name string } }
		}
	}
	w.AWS(&group, "eks", "describe-nodegroup", "--cluster-name", string(w.name), "--nodegroup-name", "workers")
	w.variables["SCALING_GROUP"] = group.Nodegroup.Resources.AutoScalingGroups[0].Name
	node := nodes.Items[0]
	w.variables["NODE"] = node.Metadata.Name
	w.variables["INSTANCE"] = node.Spec.ProviderID[strings.LastIndexByte(node.Spec.ProviderID, '/')+1:]
	w.Run(w.kubeconfig, "kubectl", "wait", "--for=condition=Available", "deployment/coredns", "-n", "kube-system",
		"--timeout="+eventually.Limit.String())
}

// must makes a part of the fixture, and keeps the answer for the facts about it.
func (w *fixture) must(t *testing.T, command string) {
	t.Helper()
	if a := w.ask(command, false); a.Err != nil {
		t.Fatalf("%s: %v\n%s%s", command, a.Err, a.Out, a.Errs)
	}
}

// ask runs a command in a shell, unless it was run before and may not be repeated.
func (w *fixture) ask(command string, again bool) Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, known := w.answers[command]; known && !(again && !isCreation(command)) {
		return a
	}
	// Not exported: the aws command line is quicker when the environment is the same for all commands.
	var script strings.Builder
	for name, value := range w.variables {
		fmt.Fprintf(&script, "%s='%s'\n", name, value)
	}
	if w.name == Empty {
		script.WriteString("export AWS_REGION=$REGION AWS_DEFAULT_REGION=$REGION\n")
	}
	script.WriteString("exec " + command)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := w.Command(ctx, w.kubeconfig, "sh", "-c", script.String())
	for i, e := range cmd.Env {
		if path, is := strings.CutPrefix(e, "PATH="); is {
			cmd.Env[i] = "PATH=" + path + ":" + filepath.Dir(w.binary)
		}
	}
	cmd.Env = append(cmd.Env, "CORACLE_DATA_DIR="+w.Dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	a := Answer{Out: out.String(), Errs: errs.String(), Err: err}
	w.answers[command] = a
	return a
}

// isCreation reports whether a command made the fixture: it cannot be run again.
func isCreation(command string) bool {
	return slices.Contains([]string{createCluster, withEntries, enableAudit, createNodegroup}, command)
}

// compare asks the facts, and those about nodes and audit events until all hold.
func (w *fixture) compare(t *testing.T, facts []Fact) {
	failures := map[string]error{} // by id, of those that differ
	look := func(again bool) error {
		var last error
		asked := map[string]bool{}
		for _, f := range facts {
			if again && (f.Differs != "" || failures[f.ID] == nil) {
				continue
			}
			failures[f.ID] = f.Check(w.ask(f.Ask, again && !asked[f.Ask]), w.variables)
			asked[f.Ask] = true
			if failures[f.ID] != nil && f.Differs == "" {
				last = failures[f.ID]
			}
		}
		return last
	}
	if err := look(false); err != nil && w.name == Nodes {
		_ = eventually.Try(time.Second, func() error { return look(true) }) // the facts report it below
	}
	for _, f := range facts {
		t.Run(f.ID, func(t *testing.T) {
			switch err := failures[f.ID]; {
			case f.Differs != "" && err == nil:
				t.Errorf("facts.yaml:%d: the fact holds: remove differs, and the sentence in the documentation: %s",
					f.Line, f.Differs)
			case f.Differs == "" && err != nil:
				t.Errorf("facts.yaml:%d: EKS answers otherwise (%s)\n%s\n%s: %v", f.Line, f.From,
					replace(f.Ask, w.variables, nil), f.subject(), err)
			}
		})
	}
}

// subject returns what of the answer the fact is about.
func (f Fact) subject() string {
	if f.Path == "" {
		return "the answer"
	}
	return f.Path
}
