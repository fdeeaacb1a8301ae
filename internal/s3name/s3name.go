// Package s3name reads the names of Amazon S3: those of its endpoints in DNS, with and without a bucket before them,
// and those of buckets.
package s3name

import (
	"regexp"
	"strings"
)

var (
	regionLabel = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-\d+$`)
	bucket      = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
)

// ParseHost returns the bucket in a name of an endpoint of Amazon S3 (lower case, no port, no dot at the end), which is
// empty in SERVICE.REGION.amazonaws.com, with which requests have the bucket in their path. ok is false for all other
// names, those of access points and of S3 Control among them.
// https://docs.aws.amazon.com/general/latest/gr/s3.html
func ParseHost(host string) (bucket string, ok bool) {
	rest, ok := strings.CutSuffix(host, ".amazonaws.com")
	if !ok {
		if rest, ok = strings.CutSuffix(host, ".amazonaws.com.cn"); !ok {
			return "", false
		}
	}
	labels := strings.Split(rest, ".")
	last := len(labels) - 1
	regional := regionLabel.MatchString(labels[last])
	if regional {
		last--
	}
	if last >= 0 && regional && labels[last] == "dualstack" {
		last--
	}
	if last < 0 {
		return "", false
	}
	region, legacy := strings.CutPrefix(labels[last], "s3-")
	switch {
	case labels[last] == "s3", labels[last] == "s3-fips" && regional:
	case legacy && !regional && (regionLabel.MatchString(region) || region == "external-1"):
	default:
		return "", false
	}
	return strings.Join(labels[:last], "."), true
}

// IsBucket reports whether a name may be that of a bucket.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
func IsBucket(name string) bool { return bucket.MatchString(name) && !strings.Contains(name, "..") }
