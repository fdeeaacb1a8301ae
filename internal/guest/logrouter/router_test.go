//go:build linux

package logrouter

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/coracle-eks/coracle/internal/eventually"
)

func TestTheGuidesExample(t *testing.T) {
	t.Parallel()
	w := newFixture(t, map[string]string{
		"filters.conf": "[FILTER]\n    Name parser\n    Match *\n    Key_name log\n    Parser crio\n" +
			"[FILTER]\n    Name kubernetes\n    Match kube.*\n    Merge_Log On\n    Keep_Log Off\n    Buffer_Size 0\n" +
			"    Kube_Meta_Cache_TTL 300s\n",
		"output.conf": "[OUTPUT]\n    Name cloudwatch_logs\n    Match   kube.*\n    region eu-west-1\n" +
			"    log_group_name my-logs\n    log_stream_prefix from-fluent-bit-\n    log_retention_days 60\n" +
			"    auto_create_group true\n",
		"parsers.conf": crio, "flb_log_cw": "true"})
	w.config.PodLabels = map[string]string{"app": "web"}
	w.link(logName)
	w.write("0.log", cri(0, "F", `{"level":"info"}`), cri(1, "F", "plain"))
	w.run()
	messages := w.wait("my-logs", "from-fluent-bit-"+logTag, 2)
	want := `{"stream":"stdout","logtag":"F","level":"info","kubernetes":{"pod_name":"web-1","namespace_name":"shop",` +
		`"labels":{"app":"web"},"host":"fargate-ip-10-0-0-4.eu-west-1.compute.internal","container_name":"app",` +
		`"docker_id":"` + containerID + `"}}`
	if messages[0] != want {
		t.Errorf("the event is\n%s\nwant\n%s", messages[0], want)
	}
	groups, err := w.client.DescribeLogGroups(t.Context(), &cloudwatchlogs.DescribeLogGroupsInput{
		LogGroupNamePrefix: aws.String("my-logs")})
	if err != nil || len(groups.LogGroups) != 1 || aws.ToInt32(groups.LogGroups[0].RetentionInDays) != 60 {
		t.Errorf("the log groups are %+v (%v)", groups, err)
	}
	eventually.Nil(t, "the log of the router", func() error {
		process, err := w.messages("demo-fluent-bit-logs", "fluent-bit-web-1-shop")
		if err == nil && !strings.Contains(strings.Join(process, "\n"), "Created log group my-logs") {
			err = fmt.Errorf("it is %q", process)
		}
		return err
	})
}

// The kubelet renames a log that has become large, and containerd goes on in a new one.
func TestRotationAndRestart(t *testing.T) {
	t.Parallel()
	w := newFixture(t, map[string]string{"output.conf": cloudWatch})
	lines := numbered(0, 60)
	w.write("0.log", lines[:10]...)
	w.link(logName)
	stop := w.run()
	w.wait("g", "s", 10)
	if err := os.Rename(filepath.Join(w.pods, "0.log"), filepath.Join(w.pods, "0.log.20261130-060000")); err != nil {
		t.Fatal(err)
	}
	w.write("0.log.20261130-060000", lines[10:20]...) // until containerd has the new file
	w.write("0.log", lines[20:30]...)
	w.wait("g", "s", 30)
	w.write("0.log", lines[30:35]...)
	stop() // it delivers what there is before
	w.wantLines(w.wait("g", "s", 35), lines[:35])

	// While no router runs, lines are written and the file is renamed again.
	w.write("0.log", lines[35:45]...)
	if err := os.Rename(filepath.Join(w.pods, "0.log"), filepath.Join(w.pods, "0.log.20261130-070000")); err != nil {
		t.Fatal(err)
	}
	w.write("0.log", lines[45:60]...)
	stop = w.run()
	w.wait("g", "s", 60)
	stop()
	w.wantLines(w.wait("g", "s", 60), lines)

	// A router that has nothing to do sends nothing.
	w.run()()
	w.wantLines(w.wait("g", "s", 60), lines)
}

// What AWS has not accepted when the router ends is sent by the next one.
func TestWhatWasNotDeliveredIsSentLater(t *testing.T) {
	t.Parallel()
	w := newFixture(t, map[string]string{"output.conf": cloudWatch})
	w.failing.Store(http.StatusServiceUnavailable)
	lines := numbered(0, 20)
	w.write("0.log", lines...)
	w.link(logName)
	short := quick
	short.grace = 20 * time.Millisecond
	stop := w.runWith(short)
	eventually.True(t, "calls fail", func() bool { return w.failed.Load() > 2 })
	stop()
	w.failing.Store(0)
	stop = w.run()
	w.wait("g", "s", 20)
	stop()
	w.wantLines(w.wait("g", "s", 20), lines)
}

// Events that AWS refuses for good are given up, and say so.
func TestRefusedEventsAreGivenUp(t *testing.T) {
	t.Parallel()
	w := newFixture(t, map[string]string{"output.conf": strings.ReplaceAll(cloudWatch, "log_group_name g",
		"log_group_name /not:valid")})
	w.write("0.log", numbered(0, 5)...)
	w.link(logName)
	r := w.run()
	eventually.True(t, "events are lost", func() bool {
		return strings.Contains(w.output.String(), "events for log stream s in log group /not:valid are lost")
	})
	if used := r().tailer.budget.used; used != 0 {
		t.Errorf("%d bytes are on their way at the end", used)
	}
}

func TestPartialLinesAreJoined(t *testing.T) {
	t.Parallel()
	w := newFixture(t, map[string]string{"output.conf": cloudWatch})
	w.link(logName)
	stderr := strings.Replace(cri(1, "F", "other"), "stdout", "stderr", 1)
	w.write("0.log", cri(0, "P", "one "), stderr, cri(2, "P", "two "), cri(3, "F", "three"), cri(4, "F", "next"))
	stop := w.run()
	w.wantLines(w.wait("g", "s", 3), []string{cri(0, "F", "one two three"), stderr, cri(4, "F", "next")})

	// The parts of a line that has not ended are read again after a restart.
	w.write("0.log", cri(5, "P", "a"))
	stop()
	w.run()
	w.write("0.log", cri(6, "F", "b"))
	w.wantLines(w.wait("g", "s", 4)[3:], []string{cri(5, "F", "ab")})
}

// A container can write lines of any length, without end, and that are no text.
func TestHostileLog(t *testing.T) {
	t.Parallel()
	w := newFixture(t, map[string]string{"output.conf": cloudWatch})
	f, err := os.Create(filepath.Join(w.pods, "0.log"))
	if err != nil {
		t.Fatal(err)
	}
	block := []byte(strings.Repeat("x", 1<<20))
	if _, err := f.WriteString(cri(0, "F", "first") + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 30); err != nil { // a line of 1 GiB of zeros, which takes no space
		t.Fatal(err)
	}
	if _, err := f.Seek(0, 2); err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{string(block), "\n", cri(1, "F", "\xff\x00\x1b") + "\n",
		strings.Repeat(cri(2, "P", strings.Repeat("y", 16000))+"\n", 40)} {
		if _, err := f.WriteString(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	w.link(logName)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stop := w.run()
	messages := w.wait("g", "s", 4)
	runtime.ReadMemStats(&after)
	stop()
	if !strings.Contains(messages[1], `\u0000\u001b`) || !strings.Contains(messages[1], "\uFFFD") {
		t.Errorf("the binary line is %q", messages[1])
	}
	for _, m := range messages[2:] {
		if len(m) > maxEvent || !strings.Contains(m, " P yyy") {
			t.Errorf("an event has %d bytes: %.100s", len(m), m)
		}
	}
	if used := after.Sys - min(before.Sys, after.Sys); used > 700<<20 {
		t.Errorf("%d MiB of memory were taken", used>>20)
	}
}

// While AWS does not take what is read, reading stops.
func TestReadingPauses(t *testing.T) {
	t.Parallel()
	w := newFixture(t, map[string]string{"output.conf": cloudWatch})
	tail := &tailer{dir: w.links, positionsFile: w.config.Positions, now: time.Now,
		log: &processLog{w: w.output, now: time.Now}, budget: &budget{limit: 1000}}
	var taken []*chunk
	tail.emit = func(_, _ string, _ time.Time, c *chunk) {
		tail.addPending(c)
		tail.budget.add(100)
		taken = append(taken, c)
	}
	w.write("0.log", numbered(0, 100)...)
	w.link(logName)
	tail.open()
	defer tail.close()
	for n := 10; n <= 100; n += 10 {
		if all := tail.poll(); len(taken) != n {
			t.Fatalf("%d lines were taken (%v), want %d", len(taken), all, n)
		}
		if tail.poll(); len(taken) != n {
			t.Fatalf("%d lines were taken while all memory is used", len(taken))
		}
		// What is released last holds back the position.
		for _, c := range slices.Backward(taken[n-10:]) {
			if tail.sources[0].committed >= tail.sources[0].offset {
				t.Fatal("the position is ahead of what has been delivered")
			}
			tail.budget.add(-100)
			tail.removePending(c)
		}
		if s := tail.sources[0]; s.committed != s.offset {
			t.Fatalf("the position is %d, want %d", s.committed, s.offset)
		}
	}
	if !tail.poll() {
		t.Error("not all is read")
	}
}

// The limits of PutLogEvents: 10,000 events, 1 MiB with 26 bytes for each, 24 hours, the order of time.
func TestBatches(t *testing.T) {
	t.Parallel()
	series := func(n, size int, step time.Duration) []*event {
		var events []*event
		for i := range n {
			events = append(events, &event{at: int64(i) * step.Milliseconds(), message: strings.Repeat("x", size)})
		}
		return events
	}
	for _, test := range []struct {
		events []*event
		want   []int
	}{
		{nil, nil},
		{series(3, 1, 0), []int{3}},
		{series(20001, 1, 0), []int{10000, 10000, 1}},
		{series(9, 1<<18-26, 0), []int{4, 4, 1}},
		{series(49, 1, time.Hour), []int{24, 24, 1}},
	} {
		var got []int
		for _, batch := range batches(test.events) {
			got = append(got, len(batch))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("batches have %v events, want %v", got, test.want)
		}
	}
}

// Records go where templates say, in the order of time.
func TestTemplatesAndOrder(t *testing.T) {
	t.Parallel()
	w := newFixture(t, map[string]string{"output.conf": "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n" +
		"    region eu-west-1\n    log_group_name fallback\n    log_stream_name fallback\n    log_key log\n" +
		"    log_group_template apps-$app\n    log_stream_template $TAG[0].$app\n    auto_create_group On\n" +
		"[OUTPUT]\n    Name es\n    Match *\n    Host x\n",
		"filters.conf": "[FILTER]\n    Name parser\n    Match *\n    Key_Name log\n    Parser p\n",
		"parsers.conf": "[PARSER]\n    Name p\n    Format regex\n    Regex F (?<app>\\w+) (?<time>\\d+) (?<log>.*)\n" +
			"    Time_Key time\n    Time_Format %s\n"})
	w.write("0.log", cri(0, "F", fmt.Sprintf("web %d later", start.Unix()+1)),
		cri(1, "F", fmt.Sprintf("web %d earlier", start.Unix())), cri(2, "F", "something else"))
	w.link(logName)
	w.run()
	if got := w.wait("apps-web", "kube.web", 2); !slices.Equal(got, []string{"earlier", "later"}) {
		t.Errorf("the events are %q", got)
	}
	if got := w.wait("fallback", "fallback", 1); got[0] != cri(2, "F", "something else") {
		t.Errorf("the event is %q", got)
	}
	if !strings.Contains(w.output.String(), "output plugin es is not supported by Coracle") {
		t.Errorf("the log is %s", w.output)
	}
}

// A log stream that somebody deletes is created again.
func TestDeletedStreamIsCreatedAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t, map[string]string{"output.conf": cloudWatch})
	w.link(logName)
	w.write("0.log", numbered(0, 2)...)
	w.run()
	w.wait("g", "s", 2)
	if _, err := w.client.DeleteLogGroup(t.Context(),
		&cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String("g")}); err != nil {
		t.Fatal(err)
	}
	w.write("0.log", numbered(2, 4)...)
	w.wantLines(w.wait("g", "s", 2), numbered(2, 4))
}

// The pod's metadata is read from the API server, as the node.
func TestMetadataOfTheAPIServer(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	var status atomic.Int32
	status.Store(http.StatusOK)
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		requests.Add(1)
		token, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer k8s-aws-v1.")
		signed, err := base64.RawURLEncoding.DecodeString(token)
		if !ok || err != nil || !strings.Contains(string(signed), "x-k8s-aws-id") ||
			request.URL.Path != "/api/v1/namespaces/shop/pods/web-1" {
			t.Errorf("the request is %s with token %q (%v)", request.URL, signed, err)
		}
		response.WriteHeader(int(status.Load()))
		_ = json.NewEncoder(response).Encode(map[string]any{
			"metadata": map[string]any{"uid": "u", "labels": map[string]string{"n": fmt.Sprint(requests.Load())}}})
	}))
	defer server.Close()
	w := newFixture(t, map[string]string{"output.conf": cloudWatch})
	w.config.PodLabels = map[string]string{"n": "0"}
	w.config.Endpoint = server.URL
	w.config.CertificateAuthority = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}))
	now := start
	m, err := newMetadata(w.config, w.aws(), &processLog{w: w.output, now: time.Now}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		passes time.Duration
		status int
		size   int64
		want   string
	}{
		{0, http.StatusForbidden, 0, "0"},      // what the host gave, while the API server refuses
		{time.Second, http.StatusOK, 0, "0"},   // it is not asked again at once
		{metadataPause, http.StatusOK, 0, "2"}, //
		{time.Minute, http.StatusOK, 0, "2"},   // it is kept
		{time.Hour, http.StatusOK, 10, "2"},    // the answer is larger than the buffer
		{time.Hour, http.StatusOK, 0, "4"},     //
	} {
		now = now.Add(step.passes)
		status.Store(int32(step.status))
		if got := m.pod(30*time.Minute, step.size).labels["n"]; got != step.want {
			t.Errorf("after %v the label is %q, want %q; the log is %s", step.passes, got, step.want, w.output)
		}
	}
}

// The program has the credentials that the machine's AWS configuration leads to. It does not run in parallel: it sets
// the environment.
func TestProgram(t *testing.T) {
	w := newFixture(t, map[string]string{"output.conf": cloudWatch})
	file := filepath.Join(t.TempDir(), "config.json")
	data, err := json.Marshal(w.config)
	if err != nil {
		t.Fatal(err)
	}
	awsConfig := filepath.Join(t.TempDir(), "aws")
	for name, content := range map[string]string{file: string(data), awsConfig: "[default]\ncredential_process = " +
		`echo '{"Version":1,"AccessKeyId":"AKIAROOT","SecretAccessKey":"secret"}'` + "\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"AWS_CONFIG_FILE": awsConfig, "AWS_ENDPOINT_URL": w.url,
		"AWS_SHARED_CREDENTIALS_FILE": awsConfig + ".no", "AWS_ACCESS_KEY_ID": "", "AWS_PROFILE": "",
		"AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	w.write("0.log", numbered(0, 3)...)
	w.link(logName)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() { done <- run(ctx, []string{"-config", file}, w.output, w.output, quick) }()
	w.wantLines(w.wait("g", "s", 3), numbered(0, 3))
	cancel()
	if status := <-done; status != 0 {
		t.Errorf("the status is %d; the log is %s", status, w.output)
	}
}

func TestProgramRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(`{"files":{"output.conf":"[INPUT]"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want int
		text string
	}{
		{nil, 2, "usage: log-router -config FILE"},
		{[]string{"-config", file + ".no"}, 1, "no such file"},
		{[]string{"-config", file}, 1, "section [INPUT] is not supported in output.conf"},
	} {
		out := &syncBuffer{}
		got := run(t.Context(), test.args, out, out, quick)
		if got != test.want || !strings.Contains(out.String(), test.text) {
			t.Errorf("%q: got %d with %q, want %d with %q", test.args, got, out, test.want, test.text)
		}
	}
}
