//go:build linux

package logrouter

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

// podMetadata is what the filter kubernetes adds to records.
type podMetadata struct {
	uid, node, ip                         string
	labels, annotations                   map[string]string
	owners                                []any
	images, hashes                        map[string]string // by container
	namespaceLabels, namespaceAnnotations map[string]string
}

// metadataSource returns the metadata of the pod, which is not older than a time.
type metadataSource interface {
	pod(maxAge time.Duration, maxSize int64) *podMetadata
}

// tagPattern takes apart the name of a log file: pod_namespace_container-id.log. It is Fluent Bit's.
var tagPattern = regexp.MustCompile(`(?P<pod_name>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?` +
	`(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*)_(?P<namespace_name>[^_]+)_(?P<container_name>.+)-` +
	`(?P<docker_id>[a-z0-9]{64})\.log$`)

// kubernetes adds the pod's metadata to a record, and reports whether the record goes on.
func (p *pipeline) kubernetes(f *fluentbit.Kubernetes, r *record) bool {
	names := p.names(f, r.tag)
	if names == nil {
		p.warnOnce("kubernetes", "invalid pattern for given tag "+r.tag)
		return true
	}
	container := names["container_name"]
	var meta *podMetadata
	if !f.UseTagForMeta {
		meta = p.metadata.pod(f.CacheTTL, f.BufferSize)
	}
	stream, _ := r.body.get("stream")
	var parser *fluentbit.Parser
	if meta != nil {
		if f.LoggingExclude && annotation(meta.annotations, "exclude", stream, container, isTrue) != "" {
			return false
		}
		if f.LoggingParser {
			name := annotation(meta.annotations, "parser", stream, container,
				func(name string) bool { return p.config.Parser(name) != nil })
			parser = p.config.Parser(name)
		}
	}
	if f.MergeLog {
		p.mergeLog(f, r, parser)
	}
	if f.NamespaceMetadataOnly {
		if meta != nil {
			r.body = r.body.with("kubernetes_namespace", namespaceObject(f, meta, names["namespace_name"]))
		}
		return true
	}
	k := object{}
	add := func(key string, value any) {
		switch v := value.(type) {
		case string:
			if v == "" {
				return
			}
		case object:
			if len(v) == 0 {
				return
			}
		}
		k = append(k, pair{key, value})
	}
	add("pod_name", names["pod_name"])
	add("namespace_name", names["namespace_name"])
	if meta != nil {
		add("pod_id", meta.uid)
		if f.Labels {
			add("labels", sortedObject(meta.labels))
		}
		if f.Annotations {
			add("annotations", sortedObject(meta.annotations))
		}
		if f.OwnerReferences && len(meta.owners) > 0 {
			add("ownerReferences", meta.owners)
		}
		add("host", meta.node)
		add("pod_ip", meta.ip)
	}
	add("container_name", container)
	add("docker_id", names["docker_id"])
	if meta != nil {
		add("container_hash", meta.hashes[container])
		add("container_image", meta.images[container])
	}
	r.body = r.body.with("kubernetes", k)
	if meta != nil && (f.NamespaceLabels || f.NamespaceAnnotations) {
		r.body = r.body.with("kubernetes_namespace", namespaceObject(f, meta, names["namespace_name"]))
	}
	return true
}

func namespaceObject(f *fluentbit.Kubernetes, meta *podMetadata, name string) object {
	o := object{{"name", name}}
	if f.NamespaceLabels && len(meta.namespaceLabels) > 0 {
		o = append(o, pair{"labels", sortedObject(meta.namespaceLabels)})
	}
	if f.NamespaceAnnotations && len(meta.namespaceAnnotations) > 0 {
		o = append(o, pair{"annotations", sortedObject(meta.namespaceAnnotations)})
	}
	return o
}

// names returns what a tag says, or nil.
func (p *pipeline) names(f *fluentbit.Kubernetes, tag string) map[string]string {
	name, ok := strings.CutPrefix(tag, f.TagPrefix)
	if !ok {
		return nil
	}
	re := tagPattern
	if f.RegexParser != nil && f.RegexParser.Regex != nil {
		re = f.RegexParser.Regex.Regexp
	}
	match := re.FindStringSubmatch(name)
	if match == nil {
		return nil
	}
	names := map[string]string{}
	for i, group := range re.SubexpNames() {
		if group != "" {
			names[group] = match[i]
		}
	}
	return names
}

func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "true", "on", "yes":
		return true
	}
	return false
}

// annotation returns the value of fluentbit.io/NAME, with _stdout or _stderr for one stream and -CONTAINER for one
// container, if it is valid. That of the container goes before that of the pod.
func annotation(all map[string]string, name string, stream any, container string, valid func(string) bool) string {
	for _, suffix := range []string{"-" + container, ""} {
		for _, of := range []any{stream, nil} {
			key := "fluentbit.io/" + name
			if s, ok := of.(string); ok {
				key += "_" + s
			}
			if value, ok := all[key+suffix]; ok {
				if !valid(value) {
					return ""
				}
				return value
			}
		}
	}
	return ""
}

// mergeLog adds the fields that the field log has as JSON, or as a parser finds them in it.
func (p *pipeline) mergeLog(f *fluentbit.Kubernetes, r *record, parser *fluentbit.Parser) {
	v, ok := r.body.get("log")
	if !ok {
		return
	}
	if parser == nil {
		parser = f.MergeParser
	}
	var merged object
	switch v := v.(type) {
	case object:
		merged = v
	case string:
		var at time.Time
		var err error
		if parser != nil {
			merged, at, err = parse(parser, v, p.now())
		} else {
			merged, err = parseJSON(v)
		}
		if err != nil {
			return
		}
		if !at.IsZero() {
			r.time = at
		}
	default:
		return
	}
	if f.MergeLogTrim {
		for i := range merged {
			if s, ok := merged[i].value.(string); ok {
				merged[i].value = trimNewlines(s)
			}
		}
	}
	if !f.KeepLog {
		r.body = r.body.without("log")
	}
	if f.MergeLogKey == "" {
		r.body = r.body.merge(merged)
	} else if len(merged) > 0 {
		r.body = r.body.with(f.MergeLogKey, merged)
	}
}

// trimNewlines removes newlines, and what stands for them, from the end of a value.
func trimNewlines(s string) string {
	for len(s) > 1 {
		switch {
		case strings.HasSuffix(s, "\n"):
			s = s[:len(s)-1]
		case strings.HasSuffix(s, `\n`), strings.HasSuffix(s, `\r`):
			s = s[:len(s)-2]
		default:
			return s
		}
	}
	return s
}

// apiMetadata reads the pod from the API server, as the node: the authorizer of nodes lets it read its own pods.
type apiMetadata struct {
	client *http.Client
	url    string
	token  func(context.Context) (string, error)
	log    *processLog
	now    func() time.Time

	mu      sync.Mutex
	current *podMetadata
	read    time.Time // of current; zero while it is that of the configuration
	tried   time.Time
}

const (
	metadataTimeout = 5 * time.Second
	metadataPause   = 15 * time.Second // after a failure
	maxMetadata     = 4 << 20
)

// newMetadata returns the source of the metadata of the pod of a configuration.
func newMetadata(c *Config, awsConfig aws.Config, log *processLog, now func() time.Time) (*apiMetadata, error) {
	m := &apiMetadata{log: log, now: now, current: &podMetadata{uid: c.PodUID, node: c.NodeName, ip: c.PodIP,
		labels: c.PodLabels, annotations: c.PodAnnotations, namespaceLabels: c.NamespaceLabels,
		namespaceAnnotations: c.NamespaceAnnotations}}
	if c.Endpoint == "" {
		return m, nil
	}
	pem, err := base64.StdEncoding.DecodeString(c.CertificateAuthority)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the certificate authority of the cluster is not PEM in base64")
	}
	m.url = strings.TrimSuffix(c.Endpoint, "/") + "/api/v1/namespaces/" + url.PathEscape(c.Namespace) + "/pods/" +
		url.PathEscape(c.PodName)
	m.client = &http.Client{Timeout: metadataTimeout,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	client := sts.NewFromConfig(awsConfig)
	m.token = func(ctx context.Context) (string, error) { return clusterToken(ctx, client, c.Cluster) }
	return m, nil
}

// clusterToken returns a token with which the role of the machine's credentials calls a cluster's API server.
// https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html
func clusterToken(ctx context.Context, client *sts.Client, cluster string) (string, error) {
	presigner := sts.NewPresignClient(client, sts.WithPresignClientFromClientOptions(sts.WithAPIOptions(
		smithyhttp.SetHeaderValue("X-K8s-Aws-Id", cluster),
		smithyhttp.SetHeaderValue("X-Amz-Expires", "60"),
	)))
	request, err := presigner.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fmt.Errorf("sign the token for the API server: %w", err)
	}
	return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(request.URL)), nil
}

// pod returns the metadata. When it is older than maxAge, unless that is 0, it is read again; if that fails, what is
// known is returned.
func (m *apiMetadata) pod(maxAge time.Duration, maxSize int64) *podMetadata {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	fresh := !m.read.IsZero() && (maxAge == 0 || now.Sub(m.read) < max(maxAge, metadataPause))
	if m.client == nil || fresh || !m.tried.IsZero() && now.Sub(m.tried) < metadataPause {
		return m.current
	}
	m.tried = now
	if maxSize <= 0 || maxSize > maxMetadata {
		maxSize = maxMetadata
	}
	ctx, cancel := context.WithTimeout(context.Background(), metadataTimeout)
	defer cancel()
	found, err := m.request(ctx, maxSize)
	if err != nil {
		m.log.error("filter:kubernetes", "could not get the metadata of the pod: %v", err)
		return m.current
	}
	found.namespaceLabels, found.namespaceAnnotations = m.current.namespaceLabels, m.current.namespaceAnnotations
	m.current, m.read = found, now
	return found
}

// podObject is what of a pod is read.
type podObject struct {
	Metadata struct {
		UID             string            `json:"uid"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		OwnerReferences []struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			UID        string `json:"uid"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		PodIP                 string            `json:"podIP"`
		ContainerStatuses     []containerStatus `json:"containerStatuses"`
		InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
	} `json:"status"`
}

type containerStatus struct {
	Name    string `json:"name"`
	Image   string `json:"image"`
	ImageID string `json:"imageID"`
}

func (m *apiMetadata) request(ctx context.Context, maxSize int64) (*podMetadata, error) {
	token, err := m.token(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	response, err := m.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the API server answers %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxSize+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > maxSize {
		return nil, fmt.Errorf("the pod has more than the %d bytes of Buffer_Size", maxSize)
	}
	var pod podObject
	if err := json.Unmarshal(body, &pod); err != nil {
		return nil, err
	}
	found := &podMetadata{uid: pod.Metadata.UID, node: pod.Spec.NodeName, ip: pod.Status.PodIP,
		labels: pod.Metadata.Labels, annotations: pod.Metadata.Annotations, images: map[string]string{},
		hashes: map[string]string{}}
	for _, o := range pod.Metadata.OwnerReferences {
		found.owners = append(found.owners, object{{"apiVersion", o.APIVersion}, {"kind", o.Kind},
			{"name", o.Name}, {"uid", o.UID}, {"controller", o.Controller}})
	}
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		found.images[s.Name], found.hashes[s.Name] = s.Image, s.ImageID
	}
	return found, nil
}
