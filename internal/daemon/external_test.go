package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/freeport"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/reset"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// TestMain runs the tests. It also runs the program that a daemon in these tests starts as its endpoint process:
// "daemon.test endpoint --dir DIR".
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "endpoint" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := endpoint.Serve(ctx, os.Args[3], slog.Default()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve runs a daemon over the etcd until the test ends.
func serve(t *testing.T, external etcd.External) (datadir.Dir, *iam.Client) {
	t.Helper()
	dir, err := datadir.At(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", p)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Serve(ctx, daemon.Config{Dir: dir, Listen: listen, Etcd: external},
			slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with: %v", err)
		}
		// As root, it has a network.
		if err := reset.Run(context.Background(), dir, func(string) {}); err != nil {
			t.Errorf("reset: %v", err)
		}
	})
	url := daemon.EndpointURL(listen)
	eventually.Nil(t, "the daemon answers", func() error {
		select {
		case err := <-ended:
			ended <- nil
			return eventually.Never(fmt.Errorf("it ended with: %v", err))
		default:
		}
		resp, err := http.Get(url + "/healthz")
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
	keys, err := dir.ReadCredentials()
	if err != nil {
		t.Fatal(err)
	}
	k := keys[daemon.DefaultAccount]
	return dir, iam.NewFromConfig(aws.Config{
		Region: daemon.DefaultRegion, BaseEndpoint: &url, HTTPClient: awsclient.HTTP(),
		Credentials: credentials.NewStaticCredentialsProvider(k.AccessKeyID, k.SecretAccessKey, ""),
	})
}

func TestTwoDaemonsShareAnEtcd(t *testing.T) {
	t.Parallel()
	etcdDir := t.TempDir()
	prepared, err := etcd.Prepare(etcdDir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- etcd.Serve(ctx, etcdDir) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("etcd ended with: %v", err)
		}
	})
	// With authentication, as somebody who runs an etcd for others has it.
	connecting, done := context.WithTimeout(ctx, eventually.Limit)
	defer done()
	own, err := prepared.Connect(connecting)
	if err != nil {
		t.Fatal(err)
	}
	own.Close()
	file := func(name string) string { return filepath.Join(etcdDir, "pki", name) }
	external := etcd.External{
		Endpoints: []string{prepared.Endpoint()},
		CACert:    file("ca.crt"), Cert: file("root.crt"), Key: file("root.key"), ClientCAKey: file("ca.key"),
	}

	firstDir, first := serve(t, external)
	secondDir, second := serve(t, external)
	if _, err := first.CreateUser(t.Context(), &iam.CreateUserInput{UserName: aws.String("ada")}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "what one daemon was told the other knows", func() error {
		_, err := second.GetUser(t.Context(), &iam.GetUserInput{UserName: aws.String("ada")})
		return err
	})
	firstKeys, err := firstDir.ReadCredentials()
	if err != nil {
		t.Fatal(err)
	}
	secondKeys, err := secondDir.ReadCredentials()
	if err != nil {
		t.Fatal(err)
	}
	if firstKeys[daemon.DefaultAccount] != secondKeys[daemon.DefaultAccount] {
		t.Error("two daemons made two root access keys for one account")
	}
	status, err := admin.NewClient(firstDir.Socket()).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.Etcd.Embedded || !status.Etcd.Separated || status.Etcd.Process != nil {
		t.Errorf("the status says of etcd: %+v", status.Etcd)
	}
}

func TestAnEtcdThatDoesNotAnswerIsSaid(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := etcd.External{Endpoints: []string{"http://127.0.0.1:1"}}.Connect(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connecting to nobody: %v", err)
	}
}
