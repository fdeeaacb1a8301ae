//go:build linux

package fargate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// followLogs follows what a pod prints to CloudWatch Logs.
func (w *fixture) followLogs() {
	w.AWS(nil, "iam", "put-role-policy", "--role-name", harness.PodExecutionRole, "--policy-name", "logs",
		"--policy-document", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["logs:CreateLogStream",
		"logs:CreateLogGroup",		"logs:DescribeLogStreams","logs:PutLogEvents","logs:PutRetentionPolicy"],"Resource":"*"}]}`)
	_, refused, err := w.Try(w.Config, "kubectl", "create", "-f", w.file(fmt.Sprintf(observability, "lua")))
	if err == nil || !strings.Contains(refused, "lua") {
		w.t.Errorf("a filter that Fargate lacks is taken: %v: %s", err, refused)
	}
	w.Apply(fmt.Sprintf(observability, "record_modifier"))
	w.Apply(job)
	w.Apply(`apiVersion: v1
kind: Pod
metadata: {name: teller, namespace: fargate, labels: {app: teller}}
spec:
  restartPolicy: Never
  containers:
  - name: teller
    image: registry.k8s.io/e2e-test-images/agnhost:2.53
    args: [netexec, --http-port=8080]
`)
	w.Await("condition=Ready", "-n", "fargate", "pod/teller")
	var p pod
	if w.JSON(&p, "get", "pod", "-n", "fargate", "teller"); p.Metadata.Annotations["Logging"] != "LoggingEnabled" {
		w.t.Errorf("the annotations of a pod with logs are %v", p.Metadata.Annotations)
	}
	w.logged("8080", "coracle-test", `"pod_name":"teller"`, `"app":"teller"`)
	eventually.Nil(w.t, "the log router's own log is in CloudWatch Logs", func() error {
		out, refused, err := w.Try("", "aws", "logs", "describe-log-streams", "--log-group-name", w.Cluster+
			"-fluent-bit-logs", "--query", "logStreams[].logStreamName", "--output", "text")
		if err != nil || !slices.Contains(strings.Fields(out), "fluent-bit-teller-fargate") {
			return fmt.Errorf("the streams are %q: %w %s", out, err, refused)
		}
		return nil
	})
	w.Run(w.Config, "kubectl", "-n", "fargate", "delete", "pod", "teller", "--wait=false")
	w.endJob()
}

// logged waits until an event of the pods' log group that a filter pattern finds has all these parts.
func (w *fixture) logged(pattern string, parts ...string) {
	w.t.Helper()
	eventually.Nil(w.t, "what a pod prints is in CloudWatch Logs", func() error {
		out, refused, err := w.Try("", "aws", "logs", "filter-log-events", "--log-group-name", "fargate-pods",
			"--filter-pattern", pattern, "--query", "events[].message", "--output", "text")
		if err != nil {
			return fmt.Errorf("%w: %s", err, refused)
		}
		for message := range strings.SplitSeq(out, "\t") {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(message, part) }) {
				return nil
			}
		}
		return fmt.Errorf("the events are %q, want one with %q", out, parts)
	})
}

// job is a Job that prints a line and ends.
const job = `apiVersion: batch/v1
kind: Job
metadata: {name: printer, namespace: fargate}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: printer, image: "` + harness.Agnhost + `", command: [sh, -c, echo printed by a job]}
`

// endJob follows a Job to its end: the machine of its pod stays, with the log, until the Job is deleted.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html
func (w *fixture) endJob() {
	w.Await("condition=complete", "-n", "fargate", "job/printer")
	w.logged("printed", "printed by a job", `"pod_name":"printer-`)
	if got := w.Run(w.Config, "kubectl", "-n", "fargate", "logs", "job/printer"); got != "printed by a job\n" {
		w.t.Errorf("the log of the job is %q", got)
	}
	all := w.pods("fargate", "job-name=printer")
	if len(all) != 1 || all[0].Status.Phase != "Succeeded" {
		w.t.Fatalf("the pods of the job are %+v", all)
	}
	ended := w.lease(all[0])
	if ended.machine == "" {
		w.t.Errorf("the machine of %s is gone before its pod", all[0].Metadata.Name)
	}
	w.Run(w.Config, "kubectl", "-n", "fargate", "delete", "job", "printer")
	w.gone(ended)
}

// observability is the log configuration of the guide, and a filter to name.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html
const observability = `apiVersion: v1
kind: Namespace
metadata: {name: aws-observability, labels: {aws-observability: enabled}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: aws-logging, namespace: aws-observability}
data:
  flb_log_cw: "true"
  filters.conf: |
    [FILTER]
        Name parser
        Match *
        Key_name log
        Parser crio
    [FILTER]
        Name kubernetes
        Match kube.*
        Merge_Log On
        Keep_Log Off
        Buffer_Size 0
        Kube_Meta_Cache_TTL 300s
    [FILTER]
        Name %s
        Match *
        Record stage coracle-test
  parsers.conf: |
    [PARSER]
        Name crio
        Format Regex
        Regex ^(?<time>[^ ]+) (?<stream>stdout|stderr) (?<logtag>P|F) (?<log>.*)$
        Time_Key    time
        Time_Format %%Y-%%m-%%dT%%H:%%M:%%S.%%L%%z
  output.conf: |
    [OUTPUT]
        Name cloudwatch_logs
        Match kube.*
        region eu-west-1
        log_group_name fargate-pods
        log_stream_prefix from-
        auto_create_group true
`
