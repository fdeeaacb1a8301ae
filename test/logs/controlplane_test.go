// Package logs tests CloudWatch Logs end to end, with real clusters and the real clients.
package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

const (
	poll  = 50 * time.Millisecond // a look is often a command
	group = "/aws/eks/logged/cluster"
)

// fixture is a daemon with a cluster called "logged".
type fixture struct {
	*testing.T
	*harness.Daemon
	logs *cloudwatchlogs.Client
	eks  *eks.Client
	kube *kubernetes.Clientset
}

// TestControlPlaneLogs lives the life of a cluster whose logging is on from the beginning.
func TestControlPlaneLogs(t *testing.T) {
	t.Parallel()
	d := harness.Start(t)
	w := &fixture{T: t, Daemon: d, logs: cloudwatchlogs.NewFromConfig(d.Config()), eks: eks.NewFromConfig(d.Config())}
	d.AWS(nil, "eks", "create-cluster", "--name", "logged", "--kubernetes-version", "1.35", "--role-arn",
		d.ClusterRole(),
		"--resources-vpc-config", "subnetIds="+strings.Join(d.Subnets(), ","),
		"--logging",
		`{"clusterLogging":[{"types":["api","audit","authenticator","controllerManager","scheduler"],"enabled":true}]}`)
	d.AwaitStatus("logged", ekstypes.ClusterStatusActive)
	config := d.Login("logged")
	d.Run(config, "kubectl", "create", "configmap", "found", "--from-literal=a=b")
	written := time.Now()

	steps := []struct {
		name string
		do   func(*fixture, string)
	}{
		{"what kubectl did is found by filter-log-events", func(w *fixture, _ string) {
			var out struct {
				Events []struct{ LogStreamName, Message string }
			}
			w.until(func() error {
				w.AWS(&out, "logs", "filter-log-events", "--log-group-name", group, "--log-stream-name-prefix",
					"kube-apiserver-audit-",
					"--filter-pattern", `{ $.objectRef.name = "found" && $.verb = "create" }`)
				if len(out.Events) != 1 {
					return fmt.Errorf("%d events: %s", len(out.Events), harness.Text(out))
				}
				return nil
			})
			w.Logf("found %v after kubectl had ended, the time of the aws command included",
				time.Since(written).Round(time.Millisecond))
			e := decode(w.T, out.Events[0].Message)
			if e.Level != "Metadata" || e.User.Username == "" {
				w.Errorf("%s", out.Events[0].Message)
			}
		}},
		{"and by a Logs Insights query", (*fixture).queried},
		{"every component has its stream, from its first line on", (*fixture).streams},
		{"no audit event is lost or doubled while the daemon is killed", (*fixture).killed},
		{"what is switched off is not stored, and nothing is restarted", (*fixture).switched},
		{"an upgrade loses nothing", (*fixture).upgraded},
		{"the group outlives the cluster", (*fixture).deleted},
	}
	for _, s := range steps {
		ok := t.Run(s.name, func(t *testing.T) {
			w.T = t
			s.do(w, config)
		})
		if !ok {
			return
		}
	}
}

// queried: see its name in TestControlPlaneLogs.
func (w *fixture) queried(string) {
	w.until(func() error {
		var query struct{ QueryID string }
		w.AWS(&query, "logs", "start-query", "--log-group-name", group,
			"--start-time", fmt.Sprint(time.Now().Add(-time.Hour).Unix()), "--end-time", fmt.Sprint(time.Now().Unix()),
			"--query-string", `filter @logStream like /^kube-apiserver-audit/
 | fields @timestamp, @message
 | sort @timestamp asc
 | filter objectRef.name == 'found' AND objectRef.resource == 'configmaps' AND verb == 'create'
 | limit 10000`)
		var out struct {
			Status  string
			Results [][]struct{ Field, Value string }
		}
		w.until(func() error {
			w.AWS(&out, "logs", "get-query-results", "--query-id", query.QueryID)
			if out.Status != "Complete" {
				return fmt.Errorf("the query is %s", out.Status)
			}
			return nil
		})
		if len(out.Results) != 1 {
			return fmt.Errorf("%d results", len(out.Results))
		}
		for _, f := range out.Results[0] {
			if e := f.Value; f.Field == "@message" && decode(w.T, e).ObjectRef.Name != "found" {
				w.Errorf("found %s", e)
			}
		}
		return nil
	})
}

// streams: see its name in TestControlPlaneLogs.
func (w *fixture) streams(string) {
	lines := map[string]string{
		"kube-apiserver-":           "kube-apiserver.log",
		"kube-apiserver-audit-":     "kube-apiserver-audit-????????.log",
		"authenticator-":            "authenticator.log",
		"kube-controller-manager-":  "kube-controller-manager.log",
		"cloud-controller-manager-": "aws-cloud-controller-manager.log",
		"kube-scheduler-":           "kube-scheduler.log",
	}
	w.until(func() error {
		out, err := w.logs.DescribeLogStreams(w.Context(),
			&cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: aws.String(group)})
		if err != nil {
			return err
		}
		var names []string
		ids := map[string]bool{}
		for _, s := range out.LogStreams {
			m := regexp.MustCompile(`^([a-z-]+-)([0-9a-f]{32})$`).FindStringSubmatch(*s.LogStreamName)
			if m == nil {
				return eventually.Never(fmt.Errorf("stream %s", *s.LogStreamName))
			}
			names, ids[m[2]] = append(names, m[1]), true
		}
		if len(names) != len(lines) || len(ids) != 1 {
			return fmt.Errorf("%d streams of %d instances: %v", len(names), len(ids), names)
		}
		for _, n := range names {
			if lines[n] == "" {
				return eventually.Never(fmt.Errorf("stream %s", n))
			}
		}
		return nil
	})
	for prefix, file := range lines {
		want, _, _ := strings.Cut(string(w.files(file)), "\n")
		w.until(func() error {
			events := w.events(prefix, "")
			if !slices.ContainsFunc(events, func(e logstypes.FilteredLogEvent) bool { return *e.Message == want }) {
				return fmt.Errorf("%d events of %s, not with the first line: %s", len(events), prefix, want)
			}
			return nil
		})
	}
}

// killed: see its name in TestControlPlaneLogs.
func (w *fixture) killed(config string) {
	w.connect(config)
	for range 3 {
		stop := w.load(fmt.Sprint("killed-", time.Now().UnixNano()))
		w.Kill()
		w.Launch()
		if err := w.Healthy(); err != nil {
			w.Fatal(err)
		}
		stop()
	}
	w.same()
}

// switched: see its name in TestControlPlaneLogs.
func (w *fixture) switched(config string) {
	before := w.pids()
	setLogging := func(enabled bool, types ...ekstypes.LogType) {
		w.Helper()
		var out struct {
			Update struct{ ID, Status, Type string }
		}
		w.AWS(&out, "eks", "update-cluster-config", "--name", "logged", "--logging",
			harness.Text(map[string]any{"clusterLogging": []any{map[string]any{"types": types, "enabled": enabled}}}))
		if out.Update.Type != "LoggingUpdate" || out.Update.Status != "InProgress" {
			w.Errorf("the update is %+v", out.Update)
		}
		w.until(func() error {
			u, err := w.eks.DescribeUpdate(w.Context(), &eks.DescribeUpdateInput{Name: aws.String("logged"),
				UpdateId: &out.Update.ID})
			if err == nil && u.Update.Status != ekstypes.UpdateStatusSuccessful {
				err = fmt.Errorf("the update is %s", u.Update.Status)
			}
			return err
		})
	}
	create := func(name string) {
		w.Helper()
		_, err := w.kube.CoreV1().ConfigMaps("default").Create(w.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			w.Fatal(err)
		}
	}
	setLogging(false, ekstypes.LogTypeAudit, ekstypes.LogTypeAuthenticator)
	create("not-logged")
	setLogging(true, ekstypes.LogTypeAudit)
	create("logged-again")
	w.created("logged-again")
	if n := len(w.events("kube-apiserver-audit-", `{ $.objectRef.name = "not-logged" }`)); n != 0 {
		w.Errorf("%d events are there of what happened while logging was off", n)
	}
	if after := w.pids(); !slices.Equal(after, before) {
		w.Errorf("processes were restarted:\n%v\n%v", before, after)
	}
}

// upgraded: see its name in TestControlPlaneLogs.
func (w *fixture) upgraded(config string) {
	prefix := "upgraded"
	stop := w.load(prefix)
	if _, err := w.eks.UpdateClusterVersion(w.Context(), &eks.UpdateClusterVersionInput{Name: aws.String("logged"),
		Version: aws.String("1.36")}); err != nil {
		w.Fatal(err)
	}
	w.AwaitStatus("logged", ekstypes.ClusterStatusActive)
	n := stop()
	w.created(fmt.Sprintf("%s-%d", prefix, n-1))
	w.until(func() error {
		seen := map[string]int{}
		for _, e := range w.events("kube-apiserver-audit-", `{ $.objectRef.name = "`+prefix+
			`-*" && $.verb = "create" && $.responseStatus.code = 201 }`) {
			seen[decode(w.T, *e.Message).ObjectRef.Name]++
		}
		for i := range n {
			if name := fmt.Sprintf("%s-%d", prefix, i); seen[name] != 1 {
				return fmt.Errorf("of %d creations the one of %s is there %d times", n, name, seen[name])
			}
		}
		return nil
	})
	w.Logf("%d creations during the upgrade", n)
	w.until(func() error { // the old API server's log is shipped and gone
		if files, _ := filepath.Glob(w.path("kube-apiserver-audit*")); len(files) != 1 {
			return fmt.Errorf("audit logs on the disk: %v", files)
		}
		return nil
	})
}

// deleted: see its name in TestControlPlaneLogs.
func (w *fixture) deleted(string) {
	if _, err := w.eks.DeleteCluster(w.Context(), &eks.DeleteClusterInput{Name: aws.String("logged")}); err != nil {
		w.Fatal(err)
	}
	w.AwaitGone("logged")
	if n := len(w.events("kube-scheduler-", "")); n == 0 {
		w.Errorf("the events are gone with the cluster")
	}
	// The last words of the API server were written after it had been told to end.
	if n := len(w.events("kube-apiserver-", "shutdown")); n == 0 {
		w.Errorf("what the API server wrote at its end is not there")
	}
}

// connect makes a client of the cluster.
func (w *fixture) connect(kubeconfig string) {
	w.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	// The exec plugin would run in this process's environment: take its answer instead.
	config.ExecProvider = nil
	config.BearerToken = w.Daemon.Token("logged")
	config.QPS = -1
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		w.Fatal(err)
	}
}

// load creates config maps, prefix-0 and so on, until stop is called, which says how many there are; there
// are some when it returns.
func (w *fixture) load(prefix string) (stop func() int) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	var n atomic.Int64
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, n.Load())},
				Data: map[string]string{"a": strings.Repeat("b", 200)}}
			// Without a daemon nobody is authenticated, and a connection may break in an upgrade. What was made
			// all the same is not counted as made.
			if _, err := w.kube.CoreV1().ConfigMaps("default").Create(context.WithoutCancel(ctx), config,
				metav1.CreateOptions{}); err == nil {
				n.Add(1)
			} else {
				w.Logf("create %s: %v", config.Name, err)
				<-time.After(poll)
			}
		}
	})
	w.until(func() error {
		if n.Load() < 20 {
			return errors.New("the cluster takes no config maps")
		}
		return nil
	})
	return func() int {
		cancel()
		working.Wait()
		return int(n.Load())
	}
}

// created waits for the audit event of a creation.
func (w *fixture) created(name string) {
	w.Helper()
	start := time.Now()
	w.until(func() error {
		if len(w.events("kube-apiserver-audit-", `{ $.objectRef.name = "`+name+`" && $.verb = "create" }`)) == 0 {
			return fmt.Errorf("no event tells of the creation of %s", name)
		}
		return nil
	})
	w.Logf("the creation of %s is found after %v", name, time.Since(start).Round(time.Millisecond))
}

// same waits until the audit events in CloudWatch Logs are those that the API server wrote, each once.
func (w *fixture) same() {
	w.Helper()
	w.until(func() error {
		count := map[string]int{}
		for line := range bytes.Lines(w.files("kube-apiserver-audit-????????.log")) {
			if line[len(line)-1] == '\n' {
				e := decode(w.T, string(line))
				count[e.AuditID+" "+e.Stage]++
			}
		}
		written := len(count)
		for _, e := range w.events("kube-apiserver-audit-", "") {
			e := decode(w.T, *e.Message)
			count[e.AuditID+" "+e.Stage]--
		}
		for key, n := range count {
			if n < 0 { // no file was rotated: it is there twice
				return fmt.Errorf("of %d audit events %s is there %d times too often", written, key, -n)
			}
			if n > 0 {
				return fmt.Errorf("of %d audit events %s is missing", written, key)
			}
		}
		w.Logf("%d audit events are there, each once", written)
		return nil
	})
}

// events returns the events of the streams with that prefix. No component's name is the prefix of another's.
func (w *fixture) events(prefix, pattern string) (all []logstypes.FilteredLogEvent) {
	w.Helper()
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: aws.String(group), LogStreamNamePrefix: aws.String(prefix +
		w.instance())}
	if pattern != "" {
		in.FilterPattern = &pattern
	}
	for pages := cloudwatchlogs.NewFilterLogEventsPaginator(w.logs, in); pages.HasMorePages(); {
		page, err := pages.NextPage(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, page.Events...)
	}
	return all
}

// instance returns the ID of the control-plane instance, by the name of a stream.
func (w *fixture) instance() string {
	w.Helper()
	var id string
	w.until(func() error {
		out, err := w.logs.DescribeLogStreams(w.Context(),
			&cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: aws.String(group),
				LogStreamNamePrefix: aws.String("kube-scheduler-")})
		if err != nil {
			return err
		}
		if len(out.LogStreams) != 1 {
			return fmt.Errorf("%d streams of schedulers", len(out.LogStreams))
		}
		id = strings.TrimPrefix(*out.LogStreams[0].LogStreamName, "kube-scheduler-")
		return nil
	})
	return id
}

func (w *fixture) path(name string) string { return filepath.Join(w.Dir, "clusters", "*", "log", name) }

// files returns the content of the logs with a name.
func (w *fixture) files(name string) (text []byte) {
	w.Helper()
	files, err := filepath.Glob(w.path(name))
	if err != nil || len(files) == 0 {
		w.Fatalf("no file %s: %v", name, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			w.Fatal(err)
		}
		text = append(text, b...)
	}
	return text
}

// pids returns the components of clusters, with their process IDs.
func (w *fixture) pids() (pids []string) {
	for _, p := range w.Processes() {
		if strings.Contains(p, "/kube ") {
			pids = append(pids, p)
		}
	}
	slices.Sort(pids)
	if len(pids) != 4 {
		w.Fatalf("a control plane of %d processes:\n%s", len(pids), strings.Join(pids, "\n"))
	}
	return pids
}

func (w *fixture) until(try func() error) {
	w.Helper()
	if err := eventually.Try(poll, try); err != nil {
		w.Fatal(err)
	}
}

type auditEvent struct {
	Level, AuditID, Stage, Verb string
	User                        struct{ Username string }
	ObjectRef                   struct{ Resource, Name string }
}

func decode(t testing.TB, message string) (e auditEvent) {
	t.Helper()
	if err := json.Unmarshal([]byte(message), &e); err != nil {
		t.Fatalf("no audit event: %v: %s", err, message)
	}
	return e
}
