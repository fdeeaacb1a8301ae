//go:build linux

package logrouter

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

// softMemory is the memory, in bytes, above which garbage is collected more often, unless GOMEMLIMIT says otherwise.
// The machine has 256 MiB for all that runs beside the pod.
const softMemory = 80 << 20

// Main runs the log router until it is asked to end, and returns the exit status. At the end it delivers what has been
// written to the logs by then.
func Main(args []string, stdout, stderr io.Writer) int {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return run(ctx, args, stdout, stderr, defaultTiming)
}

// run runs the log router until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, timing timing) int {
	flags := flag.NewFlagSet("log-router", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", "", "the configuration of the log router, in JSON (required)")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if *file == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "usage: log-router -config FILE")
		return 2
	}
	c, parsed, err := readConfig(*file)
	if err != nil {
		fmt.Fprintln(stderr, "log-router:", err)
		return 1
	}
	loading, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// What has failed is tried again here for longer than the SDK does.
	awsConfig, err := config.LoadDefaultConfig(loading, config.WithRegion(c.Region), config.WithRetryMaxAttempts(2))
	if err != nil {
		fmt.Fprintln(stderr, "log-router: load the AWS configuration:", err)
		return 1
	}
	r, err := newRouter(c, parsed, awsConfig, timing, stdout, time.Now)
	if err != nil {
		fmt.Fprintln(stderr, "log-router:", err)
		return 1
	}
	r.run(ctx)
	return 0
}

// router connects the log files with the filters and the outputs.
type router struct {
	tailer   *tailer
	pipeline *pipeline
	outputs  []*output
	matches  []fluentbit.Match // of the outputs
	process  *output           // of the log router's own log; nil if it is not shipped
	log      *processLog
	timing   timing
}

// maxProcessEvents bounds what waits of the log router's own log.
const maxProcessEvents = 1000

func newRouter(c *Config, parsed *fluentbit.Config, awsConfig aws.Config, timing timing, w io.Writer,
	now func() time.Time) (*router, error) {
	r := &router{timing: timing, log: &processLog{w: &lockedWriter{w: w}, now: now}}
	metadata, err := newMetadata(c, awsConfig, r.log, now)
	if err != nil {
		return nil, err
	}
	r.pipeline = newPipeline(parsed, metadata, now, r.log)
	r.tailer = &tailer{dir: c.LogDir, positionsFile: c.Positions, now: now, log: r.log,
		budget: &budget{limit: memoryLimit}, emit: r.emit}
	if parsed.ProcessLog {
		r.shipProcessLog(c, awsConfig, now)
	}
	for i, o := range parsed.Outputs {
		if o.CloudWatch == nil {
			component := fmt.Sprintf("output:%s:%s.%d", o.Name, o.Name, i)
			r.log.warn(component, "output plugin %s is not supported by Coracle; its records are dropped", o.Name)
			continue
		}
		r.outputs = append(r.outputs, newOutput(i, o.Name, o.CloudWatch, awsConfig, timing, r.log, r.done))
		r.matches = append(r.matches, o.Match)
	}
	return r, nil
}

// shipProcessLog sends the log router's own log to the log group that EKS names, too. What that output itself has to
// say is not sent.
func (r *router) shipProcessLog(c *Config, awsConfig aws.Config, now func() time.Time) {
	group := c.Cluster + "-fluent-bit-logs"
	stream := "fluent-bit-" + c.PodName + "-" + c.Namespace
	o := newOutput(0, "process", &fluentbit.CloudWatch{Region: c.Region, GroupName: group, StreamName: stream,
		AutoCreateGroup: true, Retries: 1}, awsConfig, r.timing, &processLog{w: r.log.w, now: now}, func(*event) {})
	r.process = o
	r.log.ship = func(line string, at time.Time) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.pending) < maxProcessEvents {
			o.pending = append(o.pending, &event{at: at.UnixMilli(), group: group, stream: stream,
				message: string(appendJSON(nil, object{{"log", line}}, maxEvent))})
		}
	}
}

// emit passes a line through the filters to the outputs.
func (r *router) emit(tag, line string, at time.Time, c *chunk) {
	for _, out := range r.pipeline.process(record{time: at, tag: tag, body: object{{"log", line}}}) {
		for i, o := range r.outputs {
			if !r.matches[i].Matches(out.tag) {
				continue
			}
			if e := o.event(&out); e != nil {
				e.chunk = c
				r.tailer.addPending(c)
				r.tailer.budget.add(e.size())
				o.add(e)
			}
		}
	}
}

// done removes an event from those in flight.
func (r *router) done(e *event) {
	r.tailer.budget.add(-e.size())
	r.tailer.removePending(e.chunk)
}

// run reads and delivers until ctx ends; then it reads to the end of the files and delivers that, for a while.
func (r *router) run(ctx context.Context) {
	final, cancel := context.WithCancel(context.Background())
	defer cancel()
	reading, stopReading := context.WithCancel(context.Background())
	defer stopReading()
	var outputs sync.WaitGroup
	all := r.outputs
	if r.process != nil {
		all = append(slices.Clone(all), r.process)
	}
	for _, o := range all {
		outputs.Go(func() { o.run(reading, final) })
	}
	r.log.info("engine", "log router started: %d filters, %d outputs", len(r.pipeline.filters), len(r.outputs))
	if len(r.outputs) > 0 {
		r.tailer.open()
		r.read(ctx)
	} else {
		<-ctx.Done()
	}
	r.log.info("engine", "service will shutdown in max %v", r.timing.grace)
	timer := time.AfterFunc(r.timing.grace, cancel)
	defer timer.Stop()
	for len(r.outputs) > 0 && !r.tailer.poll() && final.Err() == nil {
		select {
		case <-time.After(r.timing.poll):
		case <-final.Done():
		}
	}
	stopReading()
	outputs.Wait()
	r.tailer.save()
	r.tailer.close()
}

// read polls the files until ctx ends.
func (r *router) read(ctx context.Context) {
	poll := time.NewTicker(r.timing.poll)
	defer poll.Stop()
	saved := time.Now()
	for {
		all := r.tailer.poll()
		if time.Since(saved) >= r.timing.save {
			r.tailer.save()
			saved = time.Now()
		}
		if !all && !r.tailer.budget.full() && ctx.Err() == nil {
			continue
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}
