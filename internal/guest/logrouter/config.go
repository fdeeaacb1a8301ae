//go:build linux

package logrouter

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

// Config is the file, in JSON, that the log router is started with.
type Config struct {
	// Files is the data of the ConfigMap aws-logging: filters.conf, output.conf, parsers.conf and flb_log_cw.
	Files map[string]string `json:"files"`
	// Cluster is the name of the EKS cluster, Region the Region that it is in.
	Cluster string `json:"cluster"`
	Region  string `json:"region"`
	// The pod of the machine, and its node.
	PodName   string `json:"podName"`
	Namespace string `json:"namespace"`
	PodUID    string `json:"podUID,omitempty"`
	PodIP     string `json:"podIP,omitempty"`
	NodeName  string `json:"nodeName"`
	// Metadata of the pod and its namespace, for the filter kubernetes. That of the pod is used until the API server has
	// answered. That of the namespace is not read again: nodes may not read namespaces.
	PodLabels            map[string]string `json:"podLabels,omitempty"`
	PodAnnotations       map[string]string `json:"podAnnotations,omitempty"`
	NamespaceLabels      map[string]string `json:"namespaceLabels,omitempty"`
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
	// Endpoint is the URL of the cluster's API server, and CertificateAuthority its certificate authority, PEM in base64.
	// The log router reads the pod there, as the node: with a token of the pod execution role. Without an endpoint the
	// metadata above is all there is.
	Endpoint             string `json:"endpoint,omitempty"`
	CertificateAuthority string `json:"certificateAuthority,omitempty"`
	// LogDir is the directory with the log files; "/var/log/containers" if it is empty.
	LogDir string `json:"logDir,omitempty"`
	// Positions is the file with the positions in log files; "/var/log/flb_kube.db" if it is empty.
	Positions string `json:"positions,omitempty"`
}

const (
	defaultLogDir    = "/var/log/containers"
	defaultPositions = "/var/log/flb_kube.db"
	maxConfig        = 4 << 20 // labels and annotations of a pod and a namespace are at most 512 KiB, before JSON
)

// readConfig reads and checks the file.
func readConfig(name string) (*Config, *fluentbit.Config, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("file exceeds %d bytes", maxConfig)
	}
	c := &Config{}
	if err == nil {
		err = json.Unmarshal(data, c)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", name, err)
	}
	if c.LogDir == "" {
		c.LogDir = defaultLogDir
	}
	if c.Positions == "" {
		c.Positions = defaultPositions
	}
	parsed, err := fluentbit.Parse(c.Files)
	if err != nil {
		return nil, nil, fmt.Errorf("read the configuration of the log router: %w", err)
	}
	return c, parsed, nil
}

// timing has the intervals of the log router, which tests shorten.
type timing struct {
	poll     time.Duration // between looks at files
	flush    time.Duration // between deliveries
	save     time.Duration // between writes of positions
	grace    time.Duration // to deliver what is on its way at the end
	backoff  time.Duration // before the first retry
	maxPause time.Duration // before a later one
}

var defaultTiming = timing{poll: 250 * time.Millisecond, flush: time.Second, save: time.Second,
	grace: 10 * time.Second, backoff: time.Second, maxPause: 30 * time.Second}
