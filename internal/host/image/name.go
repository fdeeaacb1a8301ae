package image

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
)

// ecrHost is the name of an account's registry in a region, in its forms with and without IPv6 and FIPS.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
var ecrHost = regexp.MustCompile(`^(\d{12})\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)$`)

// ECR returns the account and region of an ECR registry from its host; ok is false for any other host.
func ECR(host string) (account, region string, ok bool) {
	match := ecrHost.FindStringSubmatch(host)
	if match == nil {
		return "", "", false
	}
	return match[1], match[2], true
}

// ECRHost returns the registry of an account in a region.
func ECRHost(account, region string) string {
	host := account + ".dkr.ecr." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	return host
}

// canonical returns the name under which a registry's images are stored. All registries of EKS's own images map to the
// one of the daemon's region.
func (r *Registry) canonical(host string) string {
	host = strings.ToLower(host)
	if account, region, ok := ECR(host); ok {
		if OfEKS(account) {
			return Host(r.options.Region)
		}
		return ECRHost(account, region)
	}
	switch host {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return "docker.io"
	}
	return host
}

// checkWritable refuses changes of EKS's own repositories, which all accounts share and the daemon alone writes.
func checkWritable(full string) error {
	host, _, _ := strings.Cut(full, "/")
	if account, _, ok := ECR(strings.ToLower(host)); ok && OfEKS(account) {
		return Denied("The images of Amazon EKS are read-only")
	}
	return nil
}

// storedName returns the name of a repository in the storage, which allows no colon: "localhost:5000/app" becomes
// localhost__5000/app.
func (r *Registry) storedName(full string) string {
	host, repository, _ := strings.Cut(full, "/")
	return strings.Replace(r.canonical(host), ":", "__", 1) + "/" + repository
}

// fullName undoes stored.
func fullName(stored string) string {
	host, rest, _ := strings.Cut(stored, "/")
	return strings.Replace(host, "__", ":", 1) + "/" + rest
}

// inside is the host under which the in-process transport has the storage; nothing ever looks it up.
const inside = "registry.coracle.invalid"

// insideReference parses a reference ("docker.io/library/nginx:1.27") for clients that use the in-process transport.
func (r *Registry) insideReference(reference string) (name.Reference, error) {
	repository, identifier, err := splitReference(reference)
	if err != nil {
		return nil, err
	}
	return name.ParseReference(joinReference(inside+"/"+r.storedName(repository), identifier))
}

// splitReference takes a reference apart: "nginx" is docker.io/library/nginx and latest. The parts can be parts of file
// names: none is "..".
func splitReference(text string) (repository, identifier string, err error) {
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return "", "", fmt.Errorf("%q is no image reference: %w", text, err)
	}
	if digested, ok := named.(reference.Digested); ok {
		return named.Name(), digested.Digest().String(), nil
	}
	return named.Name(), reference.TagNameOnly(named).(reference.Tagged).Tag(), nil
}

// joinReference returns the reference of a tag or a digest in a repository.
func joinReference(repository, identifier string) string {
	if strings.Contains(identifier, ":") {
		return repository + "@" + identifier
	}
	return repository + ":" + identifier
}
