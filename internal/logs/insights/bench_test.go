package insights_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// row is an event whose fields are at hand, as an executor that keeps columns has them.
type row []value.Value

func (r row) Value(i int) value.Value { return r[i] }

// BenchmarkPush is the time per event of the pipeline itself: reading a field is a slice access.
func BenchmarkPush(b *testing.B) {
	for _, query := range []string{
		"stats count(*) by verb, user.username, bin(5m)",
		"stats count(*), avg(responseStatus.code), max(@timestamp) by verb",
		"filter objectRef.name == 'aws-node' AND objectRef.resource == 'daemonsets' AND verb == 'patch' | fields " +
			"@timestamp, @message | sort @timestamp asc",
		"filter @logStream like /^kube-apiserver-audit/ | stats count(*) by verb",
		"filter @message like /aws-auth/ | stats count(*)",
		"fields @timestamp, @message | limit 20",
		"fields @timestamp, verb | sort @timestamp asc",
		"sort responseStatus.code desc, verb | limit 100",
		"dedup user.username, verb",
		"parse userAgent '*/* (*)' as program, version, platform | stats count(*) by program",
		"fields tolower(concat(verb, ' ', objectRef.resource)) as what | stats count(*) by what",
	} {
		b.Run(query, func(b *testing.B) {
			p := compile(b, query, options())
			r := rand.New(rand.NewPCG(1, 1))
			rows := make([]insights.Event, 4096)
			for i := range rows {
				values := map[string]value.Value{
					"@timestamp": value.Time(start + int64(len(rows)-i)*800),
					"@message":   value.String(audit("get", "alice", "pods", "default", "web", "")),
					"@ptr":       value.String(fmt.Sprintf("ptr-%08d", i)),
					"@logStream": value.String("kube-apiserver-audit-0a1b2c3d4e5f60718293a4b5c6d7e8f9"),
					"verb": value.String([]string{"get", "list", "watch", "patch", "create",
						"delete"}[r.IntN(6)]),
					"user.username": value.String(fmt.Sprintf("system:node:ip-10-0-1-%d.ec2.internal",
						r.IntN(50))),
					"userAgent":           value.String("kubectl/v1.36.2 (linux/amd64) kubernetes/a1b2c3d"),
					"objectRef.name":      value.String([]string{"aws-node", "coredns", "web"}[r.IntN(3)]),
					"objectRef.resource":  value.String([]string{"daemonsets", "pods"}[r.IntN(2)]),
					"responseStatus.code": value.Int([]int64{200, 201, 404, 409}[r.IntN(4)]),
				}
				r := make(row, len(p.Fields()))
				for j, name := range p.Fields() {
					r[j] = values[name]
				}
				rows[i] = r
			}
			w := p.NewWorker()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := w.Push(rows[i&4095]); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
