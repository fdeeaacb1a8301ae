//go:build linux

package ebscsi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The keys of tags.
const (
	tagVolumeName   = "CSIVolumeName"
	tagSnapshotName = "CSIVolumeSnapshotName"
	tagDriver       = DriverName + "/cluster"
	tagClusterName  = DriverName + "/cluster-name"
	tagIOPSPerGB    = DriverName + "/IOPSPerGb"
	tagMoreIOPS     = DriverName + "/AllowAutoIOPSIncreaseOnModify"
)

// checkTags refuses tags that the driver or Kubernetes gives a meaning.
func checkTags(tags map[string]string) error {
	for key := range tags {
		switch {
		case key == tagVolumeName, key == tagSnapshotName, key == tagClusterName:
			return fmt.Errorf("tag key '%s' is reserved", key)
		case strings.HasPrefix(key, "kubernetes.io"):
			return errors.New("tag key prefix 'kubernetes.io' is reserved")
		case strings.HasPrefix(key, DriverName+"/"):
			return fmt.Errorf("tag key prefix '%s/' is reserved", DriverName)
		}
	}
	return nil
}

// claim is what templates of a volume's tags know.
type claim struct{ PVCName, PVCNamespace, PVName string }

// volumeSnapshot is what templates of a snapshot's tags know.
type volumeSnapshot struct {
	VolumeSnapshotName, VolumeSnapshotNamespace, VolumeSnapshotContentName string
}

// evaluateTags returns the tags of "KEY=TEMPLATE" pairs. With warn, those that cannot be are left out.
func evaluateTags(pairs []string, of any, warn bool) (map[string]string, error) {
	tags := make(map[string]string)
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("the key-value pair doesn't contain a value (string: %s)", pair)
		}
		value, err := evaluate(text, of)
		if err == nil {
			err = checkTags(map[string]string{key: ""})
		}
		if err != nil && warn {
			continue
		}
		if err != nil {
			return nil, err
		}
		tags[key] = value
	}
	return tags, nil
}

func evaluate(text string, of any) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	t, err := template.New("tag").Funcs(template.FuncMap{
		"contains":  func(part, s string) bool { return strings.Contains(s, part) },
		"toUpper":   strings.ToUpper,
		"toLower":   strings.ToLower,
		"substring": substring,
		"field":     field,
		"index":     func(part, s string) int { return strings.Index(s, part) },
		"lastIndex": func(part, s string) int { return strings.LastIndex(s, part) },
	}).Parse(text)
	if err != nil {
		return "", err
	}
	var out tagValue
	err = t.Execute(&out, of)
	return string(out), err
}

// longestTagValue is EC2's, in characters of up to 4 bytes.
const longestTagValue = 256

// tagValue is what a template writes. It ends one that writes more than any value has, which may be without end.
type tagValue []byte

func (v *tagValue) Write(p []byte) (int, error) {
	if len(*v)+len(p) > longestTagValue*utf8.UTFMax {
		return 0, fmt.Errorf("the value is longer than %d characters", longestTagValue)
	}
	*v = append(*v, p...)
	return len(p), nil
}

func substring(start, end int, s string) (string, error) {
	if start < 0 {
		start = 0
	}
	if end < 0 || end > len(s) {
		end = len(s)
	}
	if start > end {
		return "", fmt.Errorf("substring: %q has no characters %d to %d", s, start, end)
	}
	return s[start:end], nil
}

func field(delimiter string, i int, s string) (string, error) {
	parts := strings.Split(s, delimiter)
	if i < 0 || i >= len(parts) {
		return "", fmt.Errorf("field: %q has %d parts, and no part %d", s, len(parts), i)
	}
	return parts[i], nil
}

// specifyTags returns tags as EC2 is told.
func specifyTags(kind types.ResourceType, tags map[string]string) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: kind, Tags: listTags(tags)}}
}

func listTags(tags map[string]string) (list []types.Tag) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}

// addClusterTags adds those of the cluster that the driver was told; kind is "volume" or "snapshot".
func (o options) addClusterTags(tags map[string]string, name string, volume bool) {
	if o.clusterID == "" {
		return
	}
	tags["kubernetes.io/cluster/"+o.clusterID] = "owned"
	tags["Name"] = o.clusterID + "-dynamic-" + name
	tags[tagClusterName] = o.clusterID
	if volume {
		tags["KubernetesCluster"] = o.clusterID
	}
}
