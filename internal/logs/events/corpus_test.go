package events

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
)

// corpus returns n audit events: those of a real cluster from the file that CORACLE_AUDIT_CORPUS names, one per line,
// or else generated ones.
func corpus(tb testing.TB, n int) []string {
	tb.Helper()
	lines := corpusLines()
	if path := os.Getenv("CORACLE_AUDIT_CORPUS"); path != "" && len(lines) == 0 {
		tb.Fatalf("%s has no lines", path)
	}
	messages := make([]string, n)
	for i := range messages {
		messages[i] = lines[i%len(lines)]
	}
	return messages
}

var corpusLines = sync.OnceValue(func() []string {
	if path := os.Getenv("CORACLE_AUDIT_CORPUS"); path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			panic(err)
		}
		var lines []string
		for line := range bytes.Lines(data) {
			lines = append(lines, string(bytes.TrimSpace(line)))
		}
		return lines
	}
	random := rand.New(rand.NewPCG(1, 2))
	lines := make([]string, 40_000)
	for i := range lines {
		lines[i] = auditEvent(random, i)
	}
	return lines
})

func auditEvent(r *rand.Rand, i int) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	uuid := func() string {
		return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", r.Uint32(), r.Uint32()>>16, r.Uint32()>>16, r.Uint32()>>16,
			r.Uint64()>>16)
	}
	namespace := pick("kube-system", "default", "monitoring", "argocd", "team-a", "team-b")
	resource, group := pick("pods", "configmaps", "leases", "endpointslices", "daemonsets", "deployments"), pick("",
		"apps", "coordination.k8s.io")
	name := fmt.Sprintf("%s-%d", pick("aws-node", "coredns", "kube-proxy", "web", "worker", "cron"), r.IntN(200))
	account := pick("deployment-controller", "kube-scheduler", "argocd", "prometheus", "karpenter")
	verb := pick("get", "list", "watch", "update", "patch", "create", "delete")
	code := []int{200, 200, 200, 201, 404, 409}[r.IntN(6)]
	second := i / 50
	at := fmt.Sprintf("2026-11-21T%02d:%02d:%02d.%06dZ", second/3600%24, second/60%60, second%60, r.IntN(1e6))
	return fmt.Sprintf(
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"%s","auditID":"%s","stage":"ResponseComplete",`+
			`"requestURI":"/apis/%s/v1/namespaces/%s/%s/%s?resourceVersion=%d\u0026timeout=%ds","verb":"%s",`+
			`"user":{"username":"system:serviceaccount:%s:%s","uid":"%08d-1111-2222-3333-444455556666","groups":["system:serviceaccounts","system:serviceaccounts:%s","system:authenticated"],`+
			`"extra":{"authentication.kubernetes.io/credential-id":["JTI=%s"],"authentication.kubernetes.io/pod-name":["%s-5d8f-%d"]}},`+
			`"sourceIPs":["10.0.%d.%d"],"userAgent":"%s/v1.35.4 (linux/amd64) kubernetes/6f814e4",`+
			`"objectRef":{"resource":"%s","namespace":"%s","name":"%s","uid":"%s","apiGroup":"%s","apiVersion":"v1","resourceVersion":"%d"},`+
			`"responseStatus":{"metadata":{},"code":%d},"requestReceivedTimestamp":"%s","stageTimestamp":"%s",`+
			`"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"%s\" of ClusterRole \"%s\" to ServiceAccount \"%s/%s\""}}`,
		pick("Metadata", "Request", "RequestResponse"), uuid(), group, namespace, resource, name, r.IntN(1e6),
		300+r.IntN(300), verb,
		namespace, account, len(account), namespace, uuid(), account, r.IntN(10), r.IntN(4), r.IntN(250), account,
		resource, namespace, name, uuid(), group, r.IntN(1e6), code, at, at, account, account, account, namespace)
}
