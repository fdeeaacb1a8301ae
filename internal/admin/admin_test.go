package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/fields"
)

type daemon struct {
	status  Status
	stopped chan struct{}
	backup  func(io.Writer) error
	missing []string // the volumes that it cannot copy
}

func (d daemon) Status(context.Context) (Status, error) { return d.status, nil }
func (d daemon) Backup(_ context.Context, w io.Writer, volumes bool) (missing []string, err error) {
	if volumes {
		missing = d.missing
		if _, err := io.WriteString(w, "with volumes "); err != nil {
			return nil, err
		}
	}
	return missing, d.backup(w)
}
func (d daemon) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "up 1\n") //nolint:errcheck // a test
	})
}
func (d daemon) Dump(context.Context) (Dump, error) { return Dump{Version: "v1"}, nil }
func (d daemon) LoadImages(_ context.Context, archive io.Reader) (Loaded, error) {
	content, err := io.ReadAll(archive)
	return Loaded{References: []string{string(content)}}, err
}
func (d daemon) Images(context.Context) ([]Image, error) {
	return []Image{{Repository: "docker.io/library/nginx"}}, nil
}
func (d daemon) Interrupt(_ context.Context, instance string) (Interruption, error) {
	if instance != "i-spot" {
		return Interruption{}, &Refused{instance + " is not a Spot Instance"}
	}
	return Interruption{Instance: instance, At: time.Unix(120, 0)}, nil
}
func (d daemon) Fields(_ context.Context, q fields.Question) (fields.Answer, error) {
	if q.Name == "" {
		return fields.Answer{}, &Refused{"which object?"}
	}
	return fields.Answer{Name: q.Name, Content: map[string]any{"spec": map[string]any{"replicas": 2.0}},
		Plan: &fields.Plan{Objects: []fields.Planned{{Kept: []string{".spec.replicas"}}}}}, nil
}
func (d daemon) Identity(_ context.Context, q IdentityQuestion) (Identity, error) {
	if q.Pod == "" {
		return Identity{}, &Refused{"which pod?"}
	}
	return Identity{Cluster: "c", Namespace: q.Namespace, Pod: q.Pod, Role: "r", Steps: []IdentityStep{
		{Name: "trust policy", State: "does not let it in", Problem: "change it\x1b[31m"}},
		Policies: []IdentityPolicy{{Name: "p", Statements: []string{"Allow s3:* on *"}}}}, nil
}
func (d daemon) PatchFargate(_ context.Context, q PatchRequest) (Patched, error) {
	if q.Profile == "none" {
		return Patched{}, &Refused{"there is no such profile"}
	}
	return Patched{Cluster: q.Cluster, Pods: 3, Until: time.Unix(0, 0).UTC().Add(q.Deadline)}, nil
}

func (d daemon) Denials(_ context.Context, account string) ([]Denial, error) {
	if account != "" {
		return nil, &Refused{"there is no account " + account}
	}
	return []Denial{{Principal: "arn:aws:iam::111122223333:user/a\x1b[31m", Action: "iam:ListRoles", Resource: "*",
		Reason: "because no identity-based policy allows the iam:ListRoles action", Count: 2},
		{Principal: "b", Action: "sts:AssumeRole", Resource: "r", Policy: "p", Statement: "S",
			Reason: "with an explicit deny in the role trust policy"}}, nil
}
func (d daemon) ConsoleLink(_ context.Context, account string) (ConsoleLink, error) {
	if account == "none" {
		return ConsoleLink{}, &Refused{"there is no account none"}
	}
	return ConsoleLink{URL: "http://127.0.0.1:4566/console/#code=" + account, Expires: time.Unix(60, 0).UTC()}, nil
}
func (d daemon) AwaitConsoleLink(ctx context.Context, l ConsoleLink) error {
	if strings.HasSuffix(l.URL, "#code=1") {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}
func (d daemon) Stop() { close(d.stopped) }
func (d daemon) CreateAccount(_ context.Context, a string) (Account, error) {
	if a == "taken" {
		return Account{}, &Refused{"account taken exists already"}
	}
	return Account{Account: a, AccessKeyID: "AKIA"}, nil
}

// serve runs d behind a socket whose path is longer than a socket address may be.
func serve(t *testing.T, d daemon) *Client {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "coracle.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, socket, d, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	})
	c := NewClient(socket)
	eventually.Nil(t, "the server answers", func() error {
		err := c.Ping(ctx)
		if err != nil && !errors.Is(err, ErrNotRunning) {
			return eventually.Never(err)
		}
		return err
	})
	return c
}

func TestCommandsTravel(t *testing.T) {
	t.Parallel()
	d := daemon{
		status:  Status{PID: 7, Clusters: []Cluster{{Name: "a"}}, Started: time.Unix(1, 0).UTC()},
		stopped: make(chan struct{}),
		backup:  func(w io.Writer) error { _, err := io.WriteString(w, "archive"); return err },
	}
	c := serve(t, d)
	ctx := t.Context()
	if got, err := c.Status(ctx); err != nil || !cmp.Equal(got, d.status) {
		t.Errorf("status %+v, %v", got, err)
	}
	if got, err := c.CreateAccount(ctx, "new"); err != nil || got.AccessKeyID != "AKIA" {
		t.Errorf("account %+v, %v", got, err)
	}
	var refused *Refused
	if _, err := c.CreateAccount(ctx, "taken"); !errors.As(err, &refused) ||
		err.Error() != "account taken exists already" {
		t.Errorf("an account that exists: %v", err)
	}
	if got, err := c.Interrupt(ctx, "i-spot"); err != nil || got.Instance != "i-spot" || got.At.Unix() != 120 {
		t.Errorf("interruption %+v, %v", got, err)
	}
	if _, err := c.Interrupt(ctx, "i-other"); !errors.As(err, &refused) {
		t.Errorf("an instance that is not a spot instance: %v", err)
	}
	asked, err := c.Fields(ctx, fields.Question{Name: "web", WhatIf: &fields.WhatIf{Conflicts: "NONE"}})
	if want, _ := d.Fields(ctx, fields.Question{Name: "web"}); err != nil || !cmp.Equal(asked, want) {
		t.Errorf("fields %+v, %v", asked, err)
	}
	if _, err := c.Fields(ctx, fields.Question{}); !errors.As(err, &refused) {
		t.Errorf("no object: %v", err)
	}
	var b bytes.Buffer
	if missing, err := c.Backup(ctx, &b, false); err != nil || b.String() != "archive" || missing != "" {
		t.Errorf("backup %q, %s, %v", &b, missing, err)
	}
	b.Reset()
	if missing, err := c.Backup(ctx, &b, true); err != nil || b.String() != "with volumes archive" || missing != "" {
		t.Errorf("backup with volumes %q, %s, %v", &b, missing, err)
	}
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
	<-d.stopped
}

// A tenant may have as many volumes that cannot be copied as it likes.
func TestVolumesThatABackupLacksAreNamed(t *testing.T) {
	t.Parallel()
	large := func(w io.Writer) error { _, err := w.Write(make([]byte, 1<<20)); return err }
	for n, want := range map[int]string{1: "vol-0", 2: "vol-0, vol-1", 10000: " and 9900 more"} {
		d := daemon{backup: large}
		for i := range n {
			d.missing = append(d.missing, fmt.Sprint("vol-", i))
		}
		missing, err := serve(t, d).Backup(t.Context(), io.Discard, true)
		if err != nil || !strings.HasSuffix(missing, want) {
			t.Errorf("of %d volumes are named %q, %v", n, missing, err)
		}
	}
}

func TestABackupThatBreaksOffIsNoticed(t *testing.T) {
	t.Parallel()
	started := true
	c := serve(t, daemon{backup: func(w io.Writer) error {
		if started {
			w.Write(bytes.Repeat([]byte("x"), 1<<20))
		}
		return errors.New("no space left on device")
	}})
	if _, err := c.Backup(t.Context(), io.Discard, false); err == nil {
		t.Error("half a backup was taken for whole")
	}
	started = false
	if _, err := c.Backup(t.Context(), io.Discard, false); err == nil || err.Error() != "no space left on device" {
		t.Errorf("a backup that fails at once: %v", err)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	if err := NewClient(filepath.Join(t.TempDir(), "coracle.sock")).Ping(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("no socket: %v", err)
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := Status{
		Version: "v1", PID: 7, Started: now.Add(-90 * time.Minute), DataDir: "/data", Endpoint: "http://127.0.0.1:4566",
		Webhooks: "https://127.0.0.1:20001", Region: "us-east-1", Accounts: []string{"111122223333"},
		Machines: "namespace",
		Memory:   600 << 20, DaemonMemory: 50 << 20,
		Etcd: Etcd{Embedded: true, Separated: true, Endpoints: []string{"https://127.0.0.1:20002"}, InUse: 2 << 20,
			File: 4 << 20, Problem: "etcd is full",
			Process: &Component{Name: "etcd", PID: 8, Started: now.Add(-49 * time.Hour), Memory: 40 << 20}},
		Disk: Disk{Used: 1 << 30, Free: 10 << 30, Total: 20 << 30},
		Logs: Logs{Groups: 2, Events: 12345, Stored: 20 << 20, Disk: 2 << 20},
		Clusters: []Cluster{{
			Account: "111122223333", Region: "eu-west-1", Name: "blue", ID: "ABC", Status: "ACTIVE", Version: "1.35",
			Endpoint: "https://127.0.0.1:20003", Memory: 280 << 20,
			Components: []Component{
				{Name: "kube-apiserver", PID: 9, Started: now.Add(-65 * time.Second), Memory: 200 << 20},
				{Name: "kube-scheduler", Deaths: 3, LastExit: "exit status 1"},
				{Name: "kube-controller-manager", Problem: "processes 10 and 11 all carry its mark"},
			},
			Issues: []string{"ClusterUnreachable: no answer"},
		}},
		Builds: []Build{{Title: "Kubernetes 1.34", Step: "Kubernetes 1.34: compiling 500 of 1000 packages", Percent: 45}},
		Images: []string{"registry.k8s.io/pause:3.10"},
		Stacks: []Stack{
			{Account: "111122223333", Region: "eu-west-1", Name: "eksctl-blue-cluster", Status: "CREATE_COMPLETE"},
			{Account: "111122223333", Region: "us-east-1", Name: "net", Status: "DELETE_IN_PROGRESS",
				Pending: []PendingResource{{LogicalID: "Vpc", Type: "AWS::EC2::VPC", Status: "DELETE_IN_PROGRESS",
					Since: now.Add(-time.Minute)}},
				Issues: []string{"Vpc: The vpc 'vpc-1' has dependencies and cannot be deleted."}},
		},
	}
	const want = `daemon    running                  pid 7, up 1h30m, version v1
endpoint  http://127.0.0.1:4566    region us-east-1, accounts 111122223333
webhooks  https://127.0.0.1:20001  for API servers
etcd      https://127.0.0.1:20002  2.0 MiB of data in a file of 4.0 MiB, pid 8, up 2d1h, 40 MiB
                                   ! etcd is full
memory    600 MiB                  of which the daemon 50 MiB
disk      1.0 GiB                  in /data; 10 GiB of 20 GiB free
logs      2.0 MiB                  12,345 events of 20 MiB in 2 log groups
machines  namespace                none running

build  45%  Kubernetes 1.34: compiling 500 of 1000 packages
image       registry.k8s.io/pause:3.10 is being made or fetched

cluster  blue  ACTIVE  1.35  280 MiB  https://127.0.0.1:20003
         in eu-west-1 of 111122223333, id ABC
         kube-apiserver           pid 9, up 1m5s, 200 MiB
         kube-scheduler           not running, died 3 times in a row, last: exit status 1
         kube-controller-manager  processes 10 and 11 all carry its mark
         ! ClusterUnreachable: no answer

stack  eksctl-blue-cluster  CREATE_COMPLETE     in eu-west-1 of 111122223333
stack  net                  DELETE_IN_PROGRESS  in us-east-1 of 111122223333
       Vpc                  DELETE_IN_PROGRESS  AWS::EC2::VPC, for 1m0s
       ! Vpc: The vpc 'vpc-1' has dependencies and cannot be deleted.
`
	var b strings.Builder
	if err := s.Print(&b, now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	c := serve(t, daemon{})
	loaded, err := c.LoadImages(t.Context(), strings.NewReader("an archive"))
	if err != nil || len(loaded.References) != 1 || loaded.References[0] != "an archive" {
		t.Errorf("loaded %v, %v", loaded, err)
	}
	if all, err := c.Images(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the images are %v, %v", all, err)
	}
}

func TestWhatDevelopersLookAt(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	go Serve(t.Context(), socket, daemon{}, slog.New(slog.DiscardHandler)) //nolint:errcheck // ends with the test
	c := NewClient(socket)
	eventually.Nil(t, "the daemon answers", func() error { return c.Ping(t.Context()) })
	var metrics, profile bytes.Buffer
	if err := c.Metrics(t.Context(), &metrics); err != nil || metrics.String() != "up 1\n" {
		t.Errorf("metrics are %q, %v", metrics.String(), err)
	}
	if dump, err := c.Dump(t.Context()); err != nil || dump.Version != "v1" {
		t.Errorf("the dump is %+v, %v", dump, err)
	}
	if err := c.Profile(t.Context(), "heap", 0, &profile); err != nil || !bytes.HasPrefix(profile.Bytes(),
		[]byte{0x1f, 0x8b}) {
		t.Errorf("the profile begins with %q, %v", profile.String()[:min(10, profile.Len())], err)
	}
	if err := c.Profile(t.Context(), "nonsense", 0, &profile); err == nil {
		t.Error("there is a profile of nonsense")
	}
}

// TestWhatTenantsWroteDoesNotCommandTheTerminal prints names and issues that tenants choose.
func TestWhatTenantsWroteDoesNotCommandTheTerminal(t *testing.T) {
	t.Parallel()
	evil := "\x1b]52;c;aGk=\a\x1b[2J\ninstance  i-2  running"
	s := Status{
		Clusters:  []Cluster{{Name: "c", Issues: []string{evil}}},
		Instances: []Instance{{ID: "i-1", Name: evil, Issues: []string{evil}}},
		Stacks:    []Stack{{Name: evil, Issues: []string{evil}}},
	}
	var b strings.Builder
	if err := s.Print(&b, time.Now()); err != nil {
		t.Fatal(err)
	}
	if out := b.String(); strings.ContainsAny(out, "\x1b\a") || strings.Contains(out, "\ninstance  i-2") {
		t.Errorf("%q", out)
	}
}

func TestFargatePodsArePatched(t *testing.T) {
	t.Parallel()
	c := serve(t, daemon{})
	p, err := c.PatchFargate(t.Context(), PatchRequest{Cluster: "demo", Deadline: time.Hour})
	if err != nil || p.Pods != 3 || p.Cluster != "demo" || p.Until.Unix() != 3600 {
		t.Errorf("%+v, %v", p, err)
	}
	var refused *Refused
	if _, err := c.PatchFargate(t.Context(), PatchRequest{Cluster: "demo", Profile: "none"}); !errors.As(err, &refused) {
		t.Errorf("another profile: %v", err)
	}
}

func TestConsoleLink(t *testing.T) {
	t.Parallel()
	c := serve(t, daemon{})
	var refused *Refused
	if _, err := c.ConsoleLink(t.Context(), "none"); !errors.As(err, &refused) {
		t.Errorf("of no account: %v", err)
	}
	want := ConsoleLink{URL: "http://127.0.0.1:4566/console/#code=1", Expires: time.Unix(60, 0).UTC()}
	if got, err := c.ConsoleLink(t.Context(), "1"); err != nil || got != want {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	if err := c.AwaitConsoleLink(t.Context(), want); err != nil {
		t.Errorf("a link that has been used: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.AwaitConsoleLink(over, ConsoleLink{URL: "#code=2"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a link that nobody uses: %v", err)
	}
}

func TestDenials(t *testing.T) {
	t.Parallel()
	c := serve(t, daemon{})
	var refused *Refused
	if _, err := c.Denials(t.Context(), "1"); !errors.As(err, &refused) {
		t.Errorf("of no account: %v", err)
	}
	all, err := c.Denials(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	PrintDenials(&b, all)
	for _, want := range []string{", 2 times since ", "  may not iam:ListRoles on *\n",
		`  missing: {"Effect":"Allow","Action":"iam:ListRoles","Resource":"*"}`, "  denied by the statement S of p\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Errorf("a terminal is controlled by %q", b.String())
	}
}
