package logs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// logGroup is a log group of a test with one stream.
type logGroup struct {
	t      testing.TB
	client *cloudwatchlogs.Client
	name   string
	arn    string
}

func newLogGroup(t testing.TB, d *harness.Daemon, name string) *logGroup {
	t.Helper()
	g := &logGroup{t: t, client: cloudwatchlogs.NewFromConfig(d.Config()), name: name}
	if _, err := g.client.CreateLogGroup(t.Context(),
		&cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.client.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &name,
		LogStreamName: aws.String("web")}); err != nil {
		t.Fatal(err)
	}
	out, err := g.client.DescribeLogGroups(t.Context(),
		&cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &name})
	if err != nil {
		t.Fatal(err)
	}
	g.arn = *out.LogGroups[0].LogGroupArn
	return g
}

func (g *logGroup) put(message string) {
	g.t.Helper()
	if _, err := g.client.PutLogEvents(g.t.Context(), &cloudwatchlogs.PutLogEventsInput{
		LogGroupName: &g.name, LogStreamName: aws.String("web"),
		LogEvents: []types.InputLogEvent{{Message: &message, Timestamp: aws.Int64(time.Now().UnixMilli())}},
	}); err != nil {
		g.t.Fatal(err)
	}
}

// plainBody hides from net/http that the SDK's request bodies have a WriteTo, which fails when the answer comes before
// net/http has looked for the body's end. The daemon gives clients time for that, but none is enough on every machine.
type plainBody struct{ http.RoundTripper }

func (t plainBody) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Body = struct{ io.ReadCloser }{r.Body}
	return t.RoundTripper.RoundTrip(r)
}

// printer is a command whose lines are read while it runs.
type printer struct {
	t      testing.TB
	cmd    *exec.Cmd
	lines  chan string
	errors strings.Builder
}

// start starts a command that ends with the test.
func start(t testing.TB, cmd *exec.Cmd) *printer {
	t.Helper()
	p := &printer{t: t, cmd: cmd, lines: make(chan string, 1000)}
	cmd.Stderr = &p.errors
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		for range p.lines {
		}
		cmd.Wait() //nolint:errcheck // it was killed
	})
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	return p
}

// awaits reads lines until one has the text, and returns it. While it waits it calls meanwhile, if there is one,
// several times a second.
func (p *printer) awaits(text string, meanwhile func()) string {
	p.t.Helper()
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	end := time.NewTimer(eventually.Limit)
	defer end.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.cmd.Wait() //nolint:errcheck // what it says on standard error says more
				p.t.Fatalf("%s ended before it printed %q:\n%s", strings.Join(p.cmd.Args, " "), text, p.errors.String())
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-again.C:
			if meanwhile != nil {
				meanwhile()
			}
		case <-end.C:
			p.t.Fatalf("%s did not print %q", strings.Join(p.cmd.Args, " "), text)
		}
	}
}

// awsWith returns an aws command line that has a command of `aws logs`: version 2 has tail and, since 2.16,
// start-live-tail; version 1 has the latter, since 1.37.
func awsWith(t testing.TB, d *harness.Daemon, command string) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, "aws")
		if _, err := exec.LookPath(path); err != nil {
			continue
		}
		_, errs, _ := d.Try("", path, "logs", command) // it lacks arguments, and says so if it knows the command
		if strings.Contains(errs, "required") {
			return path
		}
	}
	t.Skipf("no aws command line in PATH has aws logs %s", command)
	return ""
}

func TestTail(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)

	t.Run("aws logs tail --follow", func(t *testing.T) {
		t.Parallel()
		path := awsWith(t, d, "tail")
		g := newLogGroup(t, d, "/app/tail")
		g.put("ERROR before")
		p := start(t, d.Command(t.Context(), "", path, "logs", "tail", g.name, "--follow", "--since", "1h",
			"--filter-pattern", "ERROR", "--endpoint-url", d.Endpoint))
		if line := p.awaits("ERROR before", nil); !strings.Contains(line, " web ") {
			t.Errorf("the line has no stream: %s", line)
		}
		g.put("INFO between")
		for i := range 2 {
			g.put(fmt.Sprintf("ERROR %d", i))
			line := p.awaits(" web ", nil)
			if !strings.HasSuffix(line, fmt.Sprintf("ERROR %d", i)) {
				t.Errorf("the line behind ERROR %d is %s", i-1, line)
			}
		}
	})

	t.Run("aws logs start-live-tail", func(t *testing.T) {
		t.Parallel()
		path := awsWith(t, d, "start-live-tail")
		g := newLogGroup(t, d, "/app/live")
		mode := []string{}
		if version, _, _ := d.Try("", path, "--version"); strings.HasPrefix(version, "aws-cli/2") {
			mode = []string{"--mode", "print-only"}
		}
		// It may be older than AWS_DISABLE_HOST_PREFIX_INJECTION.
		if _, errs, _ := d.Try("", path, "logs", "start-live-tail", "--log-group-identifiers", g.arn+"-none",
			"--endpoint-url", d.Endpoint); strings.Contains(errs, "connect to the endpoint URL: \"http://stream") {
			t.Skipf("%s writes a prefix before the name of the endpoint: %s", path, errs)
		}
		args := append([]string{"logs", "start-live-tail", "--log-group-identifiers", g.arn,
			"--log-event-filter-pattern", "{ $.verb = patch }", "--endpoint-url", d.Endpoint}, mode...)
		p := start(t, d.Command(t.Context(), "", path, args...))
		p.awaits(`"verb":"patch"`, func() {
			g.put(`{"verb":"get"}`)
			g.put(`{"verb":"patch"}`)
		})
	})

	t.Run("boto3", func(t *testing.T) {
		t.Parallel()
		if _, errs, err := d.Try("", "python3", "-c", "import boto3"); err != nil {
			t.Skipf("python3 has no boto3: %s", errs)
		}
		g := newLogGroup(t, d, "/app/boto3")
		script := `
import boto3, sys
response = boto3.client("logs").start_live_tail(logGroupIdentifiers=[sys.argv[1]], logEventFilterPattern="%^[0-9]+$%")
for event in response["responseStream"]:
    if "sessionStart" in event:
        print("started", event["sessionStart"]["logGroupIdentifiers"], flush=True)
    for e in event.get("sessionUpdate", {}).get("sessionResults", []):
        print(e["logStreamName"], e["message"], flush=True)
`
		p := start(t, d.Command(t.Context(), "", "python3", "-c", script, g.arn))
		if line := p.awaits("started", nil); !strings.Contains(line, g.arn) {
			t.Errorf("the session says %s", line)
		}
		g.put("x1")
		g.put("42")
		if line := p.awaits("web", nil); line != "web 42" {
			t.Errorf("the first event is %s", line)
		}

		refused := strings.Replace(script, "%^[0-9]+$%", "%(a)%", 1)
		if _, errs, err := d.Try("", "python3", "-c", refused, g.arn); err == nil || !strings.Contains(errs,
			"InvalidParameterException") || !strings.Contains(errs, "Invalid character(s) in term '('") {
			t.Errorf("a malformed pattern: %v\n%s", err, errs)
		}
	})

	t.Run("SDK for Go", func(t *testing.T) {
		t.Parallel()
		g := newLogGroup(t, d, "/app/go")
		stream := liveTail(t, d, &cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{g.arn}})
		g.put("hello")
		if e := first(t, stream); *e.Message != "hello" {
			t.Errorf("the first event is %s", *e.Message)
		}
	})

	t.Run("a control plane's audit log", func(t *testing.T) {
		t.Parallel()
		d.AWS(nil, "eks", "create-cluster", "--name", "tailed", "--kubernetes-version", "1.35", "--role-arn",
			d.ClusterRole(),
			"--resources-vpc-config", "subnetIds="+strings.Join(d.Subnets(), ","), "--logging",
			`{"clusterLogging":[{"types":["audit"],"enabled":true}]}`)
		d.AwaitStatus("tailed", ekstypes.ClusterStatusActive)
		const name, pattern = "/aws/eks/tailed/cluster",
			`{ $.objectRef.resource = configmaps && $.objectRef.name = "tailed-*" && $.verb = create }`
		arn := "arn:aws:logs:" + harness.Region + ":111122223333:log-group:" + name
		stream := liveTail(t, d, &cloudwatchlogs.StartLiveTailInput{LogGroupIdentifiers: []string{arn},
			LogStreamNamePrefixes: []string{"kube-apiserver-audit-"}, LogEventFilterPattern: aws.String(pattern)})
		config := d.Login("tailed")
		d.Run(config, "kubectl", "create", "configmap", "other", "--from-literal=a=b")
		d.Run(config, "kubectl", "create", "configmap", "tailed-1", "--from-literal=a=b")
		if e := first(t, stream); !strings.Contains(*e.Message, `"tailed-1"`) || !strings.HasPrefix(*e.LogStreamName,
			"kube-apiserver-audit-") || *e.LogGroupIdentifier != "111122223333:"+name {
			t.Errorf("the first event is of %s of %s: %s", *e.LogStreamName, *e.LogGroupIdentifier, *e.Message)
		}

		p := start(t, d.Command(t.Context(), "", awsWith(t, d, "tail"), "logs", "tail", name, "--follow", "--since",
			"1h", "--filter-pattern", pattern, "--endpoint-url", d.Endpoint))
		p.awaits(`"tailed-1"`, nil)
		d.Run(config, "kubectl", "create", "configmap", "tailed-2", "--from-literal=a=b")
		p.awaits(`"tailed-2"`, nil)
	})
}

// liveTail begins a Live Tail session with the SDK for Go. It has no environment variable that keeps it from prefixing
// the host, and each stream needs a client of its own, since those of one client share a buffer.
func liveTail(t testing.TB, d *harness.Daemon,
	in *cloudwatchlogs.StartLiveTailInput) *cloudwatchlogs.StartLiveTailEventStream {
	t.Helper()
	client := cloudwatchlogs.NewFromConfig(d.Config(), func(o *cloudwatchlogs.Options) {
		o.HTTPClient = &http.Client{Transport: plainBody{http.DefaultTransport}}
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("NoHostPrefix",
				func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
					middleware.InitializeOutput, middleware.Metadata, error,
				) {
					return next.HandleInitialize(smithyhttp.DisableEndpointHostPrefix(ctx, true), in)
				}), middleware.Before)
		})
	})
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	t.Cleanup(cancel)
	out, err := client.StartLiveTail(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.GetStream().Close() })
	return out.GetStream()
}

// first returns the next event of a session.
func first(t testing.TB, stream *cloudwatchlogs.StartLiveTailEventStream) types.LiveTailSessionLogEvent {
	t.Helper()
	for e := range stream.Events() {
		if update, ok := e.(*types.StartLiveTailResponseStreamMemberSessionUpdate); ok &&
			len(update.Value.SessionResults) > 0 {
			return update.Value.SessionResults[0]
		}
	}
	t.Fatalf("the session ends: %v", stream.Err())
	return types.LiveTailSessionLogEvent{}
}
