package networkpolicyagent

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gopkg.in/natefinch/lumberjack.v2"
)

// maxLogAge is the age in days at which rotated files of the log are deleted.
const maxLogAge = 30

// newWriter returns where a log goes.
func newWriter(file string, maxSize, maxBackups int) zapcore.WriteSyncer {
	switch file {
	case "":
		return zapcore.Lock(os.Stderr)
	case "stdout":
		return zapcore.Lock(os.Stdout)
	}
	return zapcore.AddSync(&lumberjack.Logger{Filename: file, MaxSize: maxSize, MaxBackups: maxBackups,
		MaxAge: maxLogAge, Compress: true})
}

// newLogger returns a log in upstream's form.
func newLogger(level string, to zapcore.WriteSyncer) *zap.SugaredLogger {
	l, err := zapcore.ParseLevel(level)
	if err != nil {
		l = zapcore.DebugLevel
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), to, l), zap.AddCaller()).Sugar()
}

// The metrics of the agent, under upstream's names.
var (
	registry     = newRegistry()
	setupLatency = promauto.With(registry).NewSummary(prometheus.SummaryOpts{
		Name: "awsnodeagent_policy_setup_latency_ms", Help: "policy configuration setup call latency in ms"})
	lost = promauto.With(registry).NewCounter(prometheus.CounterOpts{
		Name: "awsnodeagent_lost_flow_events_total", Help: "flows that were not sent to CloudWatch Logs"})
	dropped = promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "network_policy_drop_count_total", Help: "Total number of packets dropped by network policy agent"},
		[]string{"direction"})
)

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
