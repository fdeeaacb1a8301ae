package coracletest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/coracle-eks/coracle/coracletest"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// TestMain runs the tests with the coracle of the repository, and what is built there.
func TestMain(m *testing.M) {
	if os.Getenv(coracletest.EnvProgram) == "" {
		program := filepath.Join(testenv.Root(), "bin/coracle")
		if err := os.Setenv(coracletest.EnvProgram, program); err != nil {
			panic(err)
		}
	}
	if os.Getenv("CORACLETEST_CHILD") != "" {
		child()
		return
	}
	os.Exit(m.Run())
}

func TestAccountsAreApart(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	one, two := coracletest.Start(t), coracletest.Start(t)
	for _, c := range []*coracletest.Coracle{one, two} {
		out, err := sts.NewFromConfig(c.AWSConfig()).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
		if err != nil || *out.Account != c.Account() {
			t.Errorf("the account is %+v, %v; want %s", out, err, c.Account())
		}
		if _, err := ssm.NewFromConfig(c.AWSConfig()).PutParameter(t.Context(), &ssm.PutParameterInput{
			Name: aws.String("/same/name"), Value: aws.String(c.Account()), Type: ssmtypes.ParameterTypeString,
		}); err != nil {
			t.Error(err)
		}
	}
	environment := strings.Join(one.Environ(), "\n")
	for _, want := range []string{"AWS_ENDPOINT_URL=" + one.Endpoint(), "AWS_REGION=" + coracletest.Region} {
		if !strings.Contains(environment, want) {
			t.Errorf("the environment lacks %s", want)
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	c := coracletest.Start(t)
	cluster := c.Cluster(t, "it", coracletest.WithNodes(1))
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Labels["eks.amazonaws.com/nodegroup"] != "nodes" {
		t.Errorf("the nodes are %v, %v", nodes, err)
	}
	out, err := eks.NewFromConfig(c.AWSConfig()).DescribeCluster(t.Context(),
		&eks.DescribeClusterInput{Name: &cluster.Name})
	if err != nil || cluster.Coracle() != c || *out.Cluster.Endpoint != cluster.RESTConfig().Host {
		t.Errorf("the cluster is %+v, %v", out, err)
	}
}

// Tests that share a cluster keep apart by namespaces.
func TestSharedCluster(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	var clusters []*coracletest.Cluster
	for range 2 {
		clusters = append(clusters, coracletest.SharedCluster(t))
	}
	if clusters[0] != clusters[1] {
		t.Error("two clusters were made")
	}
	for _, cluster := range clusters {
		client, err := kubernetes.NewForConfig(cluster.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().ConfigMaps(cluster.Namespace(t)).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "same"}}, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// child runs a test binary of another user, which is killed before its standard input ends.
func child() {
	c := coracletest.Start(&testing.T{})
	fmt.Println(c.Endpoint())
	_, _ = io.Copy(io.Discard, os.Stdin) // it is killed meanwhile
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "CORACLETEST_CHILD=1", "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 100)
	n, err := out.Read(text)
	if err != nil || !strings.HasPrefix(string(text[:n]), "http://") {
		t.Fatalf("%s, %v", text[:n], err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	eventually.True(t, "its daemon and its files are gone", func() bool {
		left, err := os.ReadDir(dir)
		return err == nil && len(left) == 0
	})
}

func TestAnExistingDaemon(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	c := coracletest.Start(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestAccountsAreApart$", "-test.v")
	cmd.Env = append(os.Environ(), coracletest.EnvDataDir+"="+c.DataDir())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := sts.NewFromConfig(c.AWSConfig()).GetCallerIdentity(context.Background(),
		&sts.GetCallerIdentityInput{}); err != nil {
		t.Errorf("the daemon is gone: %v", err)
	}
}
