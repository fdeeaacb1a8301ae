//go:build linux

package logrouter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	containerID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	logName     = "web-1_shop_app-" + containerID + ".log"
	logTag      = tagPrefix + logName
	cloudWatch  = "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n    region eu-west-1\n    log_group_name g\n" +
		"    log_stream_name s\n    auto_create_group true\n"
)

// start is the time of the first line of logs.
var start = time.Now().UTC().Truncate(time.Hour)

// quick has short intervals, so that tests do not wait.
var quick = timing{poll: 5 * time.Millisecond, flush: 5 * time.Millisecond, save: time.Millisecond,
	grace: eventually.Limit, backoff: time.Millisecond, maxPause: 10 * time.Millisecond}

// syncBuffer is a buffer that goroutines write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// fixture is the CloudWatch Logs API behind the real wire, and the directories of a machine.
type fixture struct {
	*awstest.Judge
	t       *testing.T
	url     string
	client  *cloudwatchlogs.Client
	failing atomic.Int32 // an HTTP status that all calls are answered with; 0 for none
	failed  atomic.Int32 // how many calls were
	links   string       // /var/log/containers
	pods    string       // /var/log/pods/POD/CONTAINER
	config  *Config
	output  *syncBuffer
}

func newFixture(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	w := &fixture{t: t, Judge: awstest.NewJudge(), links: t.TempDir(), pods: t.TempDir(), output: &syncBuffer{}}
	stored, err := events.Open(t.TempDir(), events.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stored.Close(); err != nil {
			t.Error(err)
		}
	})
	mux := wire.NewMux(wire.Options{Credentials: w.Judge, Authorizer: w.Judge, Region: awstest.Region})
	logs.New(logs.Options{Store: storetest.New(t), Events: stored, Now: time.Now}).Register(mux)
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if status := w.failing.Load(); status != 0 {
			w.failed.Add(1)
			http.Error(response, "the test refuses calls", int(status))
			return
		}
		mux.ServeHTTP(response, request)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	w.client = cloudwatchlogs.NewFromConfig(w.aws())
	w.config = &Config{Files: files, Cluster: "demo", Region: awstest.Region, PodName: "web-1", Namespace: "shop",
		NodeName: "fargate-ip-10-0-0-4.eu-west-1.compute.internal", LogDir: w.links,
		Positions: filepath.Join(t.TempDir(), "positions")}
	return w
}

func (w *fixture) aws() aws.Config {
	return aws.Config{Region: awstest.Region, BaseEndpoint: aws.String(w.url), HTTPClient: awsclient.HTTP(),
		RetryMaxAttempts: 1, Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", "")}
}

// run starts a router. stop lets it deliver what there is, and returns the router.
func (w *fixture) run() (stop func() *router) {
	w.t.Helper()
	return w.runWith(quick)
}

// runWith starts a router with other intervals.
func (w *fixture) runWith(timing timing) (stop func() *router) {
	w.t.Helper()
	parsed, err := fluentbit.Parse(w.config.Files)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := newRouter(w.config, parsed, w.aws(), timing, w.output, time.Now)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
	return func() *router {
		cancel()
		<-done
		return r
	}
}

// link makes a link to a file of a container, as the kubelet does.
func (w *fixture) link(name string) {
	w.t.Helper()
	if err := os.Symlink(filepath.Join(w.pods, "0.log"), filepath.Join(w.links, name)); err != nil {
		w.t.Fatal(err)
	}
}

// write appends lines to a file of the container.
func (w *fixture) write(file string, lines ...string) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.pods, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	for _, line := range lines {
		if _, err := f.WriteString(line + "\n"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// cri returns line number n of a log.
func cri(n int, tag, text string) string {
	at := start.Add(time.Duration(n) * time.Millisecond).Format(time.RFC3339Nano)
	return at + " stdout " + tag + " " + text
}

func numbered(from, to int) []string {
	var lines []string
	for n := from; n < to; n++ {
		lines = append(lines, cri(n, "F", fmt.Sprint("line ", n)))
	}
	return lines
}

// messages returns the messages of a log stream.
func (w *fixture) messages(group, stream string) ([]string, error) {
	var all []string
	in := &cloudwatchlogs.GetLogEventsInput{LogGroupName: aws.String(group), LogStreamName: aws.String(stream),
		StartFromHead: aws.Bool(true)}
	for {
		out, err := w.client.GetLogEvents(w.t.Context(), in)
		if err != nil {
			return nil, err
		}
		for _, e := range out.Events {
			all = append(all, *e.Message)
		}
		if in.NextToken != nil && *out.NextForwardToken == *in.NextToken {
			return all, nil
		}
		in.NextToken = out.NextForwardToken
	}
}

// wait waits until a log stream has a number of events, and returns their messages.
func (w *fixture) wait(group, stream string, n int) (messages []string) {
	w.t.Helper()
	eventually.Nil(w.t, "events of "+stream, func() error {
		var err error
		messages, err = w.messages(group, stream)
		if err == nil && len(messages) < n {
			err = fmt.Errorf("there are %d events, want %d; the log is %s", len(messages), n, w.output)
		}
		return err
	})
	return messages
}

// wantLines fails the test unless messages are records with exactly these lines.
func (w *fixture) wantLines(messages []string, want []string) {
	w.t.Helper()
	if len(messages) != len(want) {
		w.t.Fatalf("got %d events, want %d; the log is %s", len(messages), len(want), w.output)
	}
	for i := range want {
		var got struct{ Log string }
		if err := json.Unmarshal([]byte(messages[i]), &got); err != nil || got.Log != want[i] {
			w.t.Fatalf("event %d is %.200s (%v), want the line %.200s", i, messages[i], err, want[i])
		}
	}
}

// through passes a record, written as JSON, through filters and returns what comes out, a line for each record: its
// tag and its JSON.
func through(t *testing.T, files map[string]string, metadata metadataSource, tag, body string) string {
	t.Helper()
	files = map[string]string{"filters.conf": files["filters.conf"], "parsers.conf": files["parsers.conf"],
		"output.conf": cloudWatch}
	c, err := fluentbit.Parse(files)
	if err != nil {
		t.Fatal(err)
	}
	o, err := parseJSON(body)
	if err != nil {
		t.Fatal(err)
	}
	log := &processLog{w: t.Output(), now: time.Now}
	p := newPipeline(c, metadata, func() time.Time { return start }, log)
	var lines []string
	for _, r := range p.process(record{time: start, tag: tag, body: o}) {
		line := string(appendJSON(nil, r.body, maxEvent))
		if r.tag != tag {
			line = r.tag + " " + line
		}
		if !r.time.Equal(start) {
			line += " " + r.time.Format(time.RFC3339Nano)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
