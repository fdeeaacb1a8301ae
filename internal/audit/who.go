package audit

import (
	"slices"
	"strings"

	authnv1 "k8s.io/api/authentication/v1"
)

// Who identifies the sender of a request.
type Who struct {
	// Username is the Kubernetes user.
	Username string `json:"username"`
	// Groups are those that say something: not system:authenticated, not those that every service account is in.
	Groups []string `json:"groups,omitempty"`
	// ARN is the IAM identity that signed the token, and CanonicalARN the role or user by which access
	// entries and aws-auth know it.
	ARN          string `json:"arn,omitempty"`
	CanonicalARN string `json:"canonicalArn,omitempty"`
	SessionName  string `json:"sessionName,omitempty"`
	AccessKeyID  string `json:"accessKeyId,omitempty"`
	// Pod and Node are those that a service account's token is bound to.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// EKS is true for the users that Amazon EKS acts as.
	EKS bool `json:"eks,omitempty"`
	// As is the user that the user impersonated.
	As *Who `json:"as,omitempty"`
}

func resolveUser(u authnv1.UserInfo) Who {
	extra := func(key string) string {
		if v := u.Extra[key]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	w := Who{
		Username:     u.Username,
		ARN:          extra("arn"),
		CanonicalARN: extra("canonicalArn"),
		SessionName:  extra("sessionName"),
		AccessKeyID:  extra("accessKeyId"),
		Pod:          extra("authentication.kubernetes.io/pod-name"),
		Node:         extra("authentication.kubernetes.io/node-name"),
		EKS:          strings.HasPrefix(u.Username, "eks:"),
	}
	for _, g := range u.Groups {
		if g != "system:authenticated" && g != "system:serviceaccounts" && !strings.HasPrefix(g,
			"system:serviceaccounts:") {
			w.Groups = append(w.Groups, g)
		}
	}
	slices.Sort(w.Groups)
	return w
}

// machinery reports whether it is a part of Kubernetes or EKS rather than a person or a person's program.
func (w Who) machinery() bool {
	if w.As != nil {
		return false
	}
	if account, ok := strings.CutPrefix(w.Username, "system:serviceaccount:"); ok {
		return strings.HasPrefix(account, "kube-system:")
	}
	return w.EKS || strings.HasPrefix(w.Username, "system:")
}

// shortName returns the short name of a user, for people.
func (w Who) shortName() string {
	if w.As != nil {
		return w.As.shortName()
	}
	if w.SessionName != "" && !w.EKS {
		return w.SessionName
	}
	name := w.Username
	if strings.HasPrefix(name, "arn:") {
		return name[strings.LastIndexAny(name, ":/")+1:]
	}
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		_, name, _ = strings.Cut(account, ":")
	}
	return name
}

// mentions reports whether a filter's text is in any of the names.
func (w Who) mentions(part string) bool {
	part = strings.ToLower(part)
	for _, name := range []string{w.Username, w.ARN, w.CanonicalARN, w.SessionName, w.AccessKeyID, w.Pod} {
		if strings.Contains(strings.ToLower(name), part) {
			return true
		}
	}
	return w.As != nil && w.As.mentions(part)
}
