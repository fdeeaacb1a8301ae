package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/test/harness"
)

const (
	logGroup  = "/aws/eks/bench/cluster"
	logStream = "kube-apiserver-audit-0123456789abcdef0123456789abcdef"
	// days is the time over which the events of the corpus are spread.
	days = 10

	whoPatchedAWSNode = `filter @logStream like /^kube-apiserver-audit/
 | fields @timestamp, @message
 | sort @timestamp asc
 | filter objectRef.name == 'aws-node' AND objectRef.resource == 'daemonsets' AND verb == 'patch'
 | limit 10000`
	whoPatchedAWSNodeJQ = `select(.objectRef.name == "aws-node" and .objectRef.resource == "daemonsets" and .verb == "patch")`
	byVerbAndUser       = `stats count(*) by verb, user.username, bin(5m)`
	tooManyMessages     = `fields @message | filter verb = 'get'`
)

// auditBatch is the input of one PutLogEvents.
type auditBatch struct {
	messages   []string
	timestamps []int64 // ms
}

// auditLog is the corpus in memory, spread evenly over ten days.
type auditLog struct {
	batches    []auditBatch
	events     int
	bytes      int64 // of the messages
	start, end time.Time
}

// readCorpus reads the corpus, making it when it is not there, and spreads it over the ten days before today,
// the times inside the messages included.
func readCorpus(b testing.TB) *auditLog {
	b.Helper()
	path, n := corpus(b)
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	decoder, err := zstd.NewReader(file)
	if err != nil {
		b.Fatal(err)
	}
	defer decoder.Close()
	lines := bufio.NewScanner(decoder)
	lines.Buffer(make([]byte, 1<<20), 64<<20)

	end := time.Now().UTC().Truncate(24 * time.Hour)
	log := &auditLog{start: end.Add(-days * 24 * time.Hour), end: end}
	step := end.Sub(log.start) / time.Duration(n)
	var batch auditBatch
	size := 0
	var first int64
	for lines.Scan() {
		at := log.start.Add(time.Duration(log.events) * step)
		message := string(retime(lines.Bytes(), at))
		t := at.UnixMilli()
		// The limits of PutLogEvents.
		if size += len(message) + 26; size > 1<<20 || len(batch.messages) == 10_000 || len(batch.messages) > 0 &&
			t-first >= 24*3600*1000 {
			log.batches = append(log.batches, batch)
			batch, size = auditBatch{}, len(message)+26
		}
		if len(batch.messages) == 0 {
			first = t
		}
		batch.messages, batch.timestamps = append(batch.messages, message), append(batch.timestamps, t)
		log.events++
		log.bytes += int64(len(message))
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	log.batches = append(log.batches, batch)
	return log
}

// retime gives an audit event another time, in place.
func retime(line []byte, at time.Time) []byte {
	const layout = "2006-01-02T15:04:05.000000Z"
	field := func(name string) []byte {
		_, after, found := bytes.Cut(line, []byte(name))
		if !found || len(after) < len(layout) {
			return nil
		}
		return after[:len(layout)]
	}
	received, stage := field(`"requestReceivedTimestamp":"`), field(`"stageTimestamp":"`)
	from, err := time.Parse(layout, string(received))
	to, err2 := time.Parse(layout, string(stage))
	if err != nil || err2 != nil {
		return line
	}
	copy(received, at.Format(layout))
	copy(stage, at.Add(to.Sub(from)).Format(layout))
	return line
}

// write writes the messages, one a line.
func (l *auditLog) write(w io.Writer) error {
	buffered := bufio.NewWriterSize(w, 1<<20)
	for _, batch := range l.batches {
		for _, m := range batch.messages {
			buffered.WriteString(m)  //nolint:errcheck // Flush says
			buffered.WriteByte('\n') //nolint:errcheck // Flush says
		}
	}
	return buffered.Flush()
}

// compress writes the messages to a file with `zstd -3` and returns its path.
func (l *auditLog) compress(b testing.TB) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "audit.jsonl.zst")
	cmd := exec.Command("zstd", "-3", "-q", "-o", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(l.write(in), in.Close(), cmd.Wait()); err != nil {
		b.Fatal(err)
	}
	return path
}

// append appends the log to a group of a store, again and again until there are so many bytes.
func (l *auditLog) append(ctx context.Context, s *events.Store, group events.GroupID, stream events.StreamID,
	bytes int64) error {
	now := time.Now().UnixMilli()
	for round := int64(0); bytes > 0; round++ {
		for _, batch := range l.batches {
			all := make([]events.Event, len(batch.messages))
			for i, m := range batch.messages {
				all[i] = events.Event{Stream: stream, Timestamp: batch.timestamps[i] + round, Ingested: now, Message: m}
				bytes -= int64(len(m))
			}
			if _, err := s.Append(ctx, events.Batch{Group: group, Events: all}); err != nil {
				return err
			}
			if bytes <= 0 {
				break
			}
		}
	}
	return nil
}

// BenchmarkLogs takes in a million audit events, and asks Logs Insights about them through its API.
func BenchmarkLogs(b *testing.B) {
	ctx := b.Context()
	log := readCorpus(b)
	millions := fmt.Sprintf("%.3g million audit events", float64(log.events)/1e6)

	// Ingest without the API, and what it takes on the disk.
	dir := b.TempDir()
	store, err := events.Open(dir, events.Options{})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if err := log.append(ctx, store, 1, 1, log.bytes); err != nil {
		b.Fatal(err)
	}
	acknowledged := time.Since(start)
	if err := store.WaitIdle(ctx); err != nil {
		b.Fatal(err)
	}
	sealed := time.Since(start)
	disk := store.DiskBytes()
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	rate := func(d time.Duration) string { return fmt.Sprintf("%.0f/s", float64(log.events)/d.Seconds()) }
	report(row{"ingest of " + millions + ", sealing included", rate(sealed) + " (acknowledged " + rate(acknowledged) +
		")", "60,000/s", ""})
	b.ReportMetric(float64(log.events)/sealed.Seconds(), "events/s")

	compressed := log.compress(b)
	info, err := os.Stat(compressed)
	if err != nil {
		b.Fatal(err)
	}
	part := func(n int64) string {
		return fmt.Sprintf("%.0f MB, 1/%.1f", float64(n)/1e6, float64(log.bytes)/float64(n))
	}
	report(row{fmt.Sprintf("disk for them (%.0f bytes each, raw %.0f MB)", float64(log.bytes)/float64(log.events),
		float64(log.bytes)/1e6), part(disk), "1/10", "zstd -3 " + part(info.Size())})

	// Ingest through the API.
	d := harness.Start(b)
	client := cloudwatchlogs.NewFromConfig(d.Config())
	if _, err := client.CreateLogGroup(ctx,
		&cloudwatchlogs.CreateLogGroupInput{LogGroupName: new(logGroup)}); err != nil {
		b.Fatal(err)
	}
	if _, err := client.CreateLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: new(logGroup),
		LogStreamName: new(logStream)}); err != nil {
		b.Fatal(err)
	}
	start = time.Now()
	if err := log.put(ctx, client); err != nil {
		b.Fatal(err)
	}
	report(row{"PutLogEvents of them through the SDK over HTTP", rate(time.Since(start)), "", ""})

	// Queries.
	q := querier{b, client}
	hour := log.start.Add(days * 24 * time.Hour / 2)
	first := q.median(whoPatchedAWSNode, log.start, log.end)
	start = time.Now()
	text, err := exec.Command("bash", "-c", "set -o pipefail; zstdcat "+compressed+" | jq -c '"+whoPatchedAWSNodeJQ+
		"'").Output()
	if err != nil {
		b.Fatal(err)
	}
	jq := time.Since(start)
	if found := bytes.Count(text, []byte("\n")); found != len(first.rows) || found == 0 {
		b.Errorf("the query found %d events and jq %d", len(first.rows), found)
	}
	report(row{fmt.Sprintf("who patched aws-node: %d of %s", len(first.rows), millions), milliseconds(first.took),
		"1.5 s",
		fmt.Sprintf("zstdcat | jq %s: %.0f times faster (goal 20)", seconds(jq), jq.Seconds()/first.took.Seconds())})
	report(row{"the same, one hour out of ten days",
		milliseconds(q.median(whoPatchedAWSNode, hour, hour.Add(time.Hour)).took), "0.2 s", ""})
	report(row{"the same, one minute: from StartQuery to the answer",
		milliseconds(q.median(whoPatchedAWSNode, hour, hour.Add(time.Minute)).took), "0.05 s", ""})
	report(row{byVerbAndUser, milliseconds(q.median(byVerbAndUser, log.start, log.end).took), "2 s", ""})
	b.ReportMetric(first.took.Seconds(), "s/query")

	// Ten GiB, or less of a smaller corpus.
	goal := int64(10<<30) * int64(log.events) / corpusEvents
	d.Kill()
	if store, err = events.Open(filepath.Join(d.Dir, "logs", "events"), events.Options{}); err != nil {
		b.Fatal(err)
	}
	group := store.Groups()[0] // this daemon has no other
	if err := log.append(ctx, store, group, store.Streams(group)[0], goal-log.bytes); err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(store.WaitIdle(ctx), store.Close()); err != nil {
		b.Fatal(err)
	}
	d.Serve()
	idle := peak(b, d.PID())
	var queries []string
	for _, text := range []string{whoPatchedAWSNode, byVerbAndUser, tooManyMessages} {
		queries = append(queries, seconds(q.run(text, log.start, log.end).took))
	}
	report(row{fmt.Sprintf("memory (peak RSS) of the daemon over %.3g GiB of events", float64(goal)/(1<<30)),
		fmt.Sprintf("%.0f MiB (at its start %.0f)", float64(peak(b, d.PID()))/(1<<20), float64(idle)/(1<<20)),
		"300 MiB",
		"these queries, and one for 10,000 messages, took " + strings.Join(queries, ", ")})
}

// put sends the log with PutLogEvents over some connections.
func (l *auditLog) put(ctx context.Context, client *cloudwatchlogs.Client) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for _, batch := range l.batches {
		group.Go(func() error {
			all := make([]logstypes.InputLogEvent, len(batch.messages))
			for i := range all {
				all[i] = logstypes.InputLogEvent{Message: &batch.messages[i], Timestamp: &batch.timestamps[i]}
			}
			out, err := client.PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{LogGroupName: new(logGroup),
				LogStreamName: new(logStream), LogEvents: all})
			if err == nil && out.RejectedLogEventsInfo != nil {
				err = fmt.Errorf("events were rejected: %s", harness.Text(out.RejectedLogEventsInfo))
			}
			return err
		})
	}
	return group.Wait()
}

// querier asks Logs Insights.
type querier struct {
	b      testing.TB
	client *cloudwatchlogs.Client
}

// answer is the result of a query and its duration.
type answer struct {
	took time.Duration
	rows [][]logstypes.ResultField
}

// run runs one query, from StartQuery to its results.
func (q querier) run(text string, from, to time.Time) answer {
	q.b.Helper()
	begin := time.Now()
	started, err := q.client.StartQuery(q.b.Context(), &cloudwatchlogs.StartQueryInput{
		LogGroupName: new(logGroup), QueryString: &text, StartTime: new(from.Unix()), EndTime: new(to.Unix()),
		Limit: new(int32(10_000)),
	})
	if err != nil {
		q.b.Fatal(err)
	}
	var a answer
	err = eventually.Try(2*time.Millisecond, func() error {
		out, err := q.client.GetQueryResults(q.b.Context(),
			&cloudwatchlogs.GetQueryResultsInput{QueryId: started.QueryId})
		switch {
		case err != nil:
			return eventually.Never(err)
		case out.Status == logstypes.QueryStatusComplete:
			a = answer{time.Since(begin), out.Results}
			return nil
		case out.Status == logstypes.QueryStatusScheduled || out.Status == logstypes.QueryStatusRunning:
			return errors.New(string(out.Status))
		}
		return eventually.Never(fmt.Errorf("the query is %s", out.Status))
	})
	if err != nil {
		q.b.Fatalf("%s: %v", text, err)
	}
	return a
}

// median runs a query five times, and returns its answer with the median time.
func (q querier) median(text string, from, to time.Time) answer {
	q.b.Helper()
	var a answer
	var times []time.Duration
	for range 5 {
		a = q.run(text, from, to)
		times = append(times, a.took)
	}
	a.took = quantile(times, 0.5)
	return a
}

// peak returns the peak memory of a process since its start, in bytes.
func peak(b testing.TB, pid int) int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		b.Fatalf("no VmHWM in\n%s", text)
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
