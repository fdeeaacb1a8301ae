package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/internal/datadir"
)

func envCommand() *cobra.Command {
	var account, region string
	cmd := &cobra.Command{
		Use:     "env",
		Short:   "Print the exports that point AWS clients at the daemon",
		Example: `  eval "$(coracle env)"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			return printEnv(cmd.OutOrStdout(), cmd.ErrOrStderr(), dir, account, region)
		},
	}
	cmd.Flags().
		StringVar(&account, "account", "",
			"`number` of the account whose root access key is exported (default the first)")
	cmd.Flags().StringVar(&region, "region", "", "`region` to export (default that of the daemon)")
	return cmd
}

// printEnv prints the exports for AWS clients to w, and what will not work to warn.
func printEnv(w, warn io.Writer, dir datadir.Dir, account, region string) error {
	s, err := dir.ReadSettings()
	if errors.Is(err, fs.ErrNotExist) {
		return notRunning(dir)
	}
	if err != nil {
		return err
	}
	all, err := dir.ReadCredentials()
	if err != nil {
		return err
	}
	if account == "" {
		account = s.Account
	}
	if region == "" {
		region = s.Region
	} else if err := daemon.CheckRegion(region); err != nil {
		return fmt.Errorf("--region: %w", err)
	}
	c, ok := all[account]
	switch {
	case !ok && len(all) == 0:
		return notRunning(dir)
	case !ok:
		return fmt.Errorf(
			"there is no account %s; there are %s: make it with \"coracle account create %s\"",
			account, strings.Join(slices.Sorted(maps.Keys(all)), ", "), account,
		)
	}
	if _, held, err := dir.Holder(); err == nil && !held {
		fmt.Fprintf(warn, "coracle: %v\n", notRunning(dir))
	}
	bundle, err := daemon.WriteBundle(dir, s, os.Getenv("SSL_CERT_FILE"))
	if err != nil {
		return fmt.Errorf("write the certificates for SSL_CERT_FILE: %w", err)
	}
	variables := [][2]string{
		{"AWS_ENDPOINT_URL", daemon.AdvertisedURL(s)},
		{"AWS_ACCESS_KEY_ID", c.AccessKeyID},
		{"AWS_SECRET_ACCESS_KEY", c.SecretAccessKey},
		{"AWS_REGION", region},
		{"AWS_DEFAULT_REGION", region},
		// Some operations, such as StartLiveTail, belong to a host of their own, "stream-" before the endpoint's name,
		// which has no address here. Those SDKs that know this variable, Python's and so the aws command line, leave
		// the name as it is.
		{"AWS_DISABLE_HOST_PREFIX_INJECTION", "true"},
		// For TLS connections to AWS's names that lead to the daemon, such as those of eksctl to the issuers of clusters.
		{"SSL_CERT_FILE", bundle},
		{"AWS_CA_BUNDLE", bundle},
	}
	if !daemon.RealMachines(s) {
		// Comments: a shell evaluates them to nothing.
		if _, err := fmt.Fprintf(w, "# The OIDC issuers of clusters, such as https://oidc.eks.%s.amazonaws.com/id/<ID>, "+
			"do not lead\n# to the daemon by their own names, as machines are simulated: that takes root. Their documents "+
			"are\n# at %s/id/<ID>/.\n", region, daemon.AdvertisedURL(s)); err != nil {
			return err
		}
	}
	if direct := withoutProxy(s, region, os.Getenv); direct != "" {
		variables = append(variables, [2]string{"no_proxy", direct}, [2]string{"NO_PROXY", direct})
	}
	for _, v := range variables {
		if _, err := fmt.Fprintf(w, "export %s=%s\n", v[0], shellQuote(v[1])); err != nil {
			return err
		}
	}
	// What an earlier session left in the shell would be sent along and refused.
	_, err = fmt.Fprintln(w, "unset AWS_SESSION_TOKEN AWS_PROFILE")
	return err
}

// proxies are the variables that send requests of clients to a proxy, in both of their spellings.
var proxies = []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}

// withoutProxy returns what clients reach without the proxy that their environment names: what it excludes already, the
// daemon, and the endpoints and issuers of clusters, which no proxy knows. It is empty where there is no proxy, or none
// is asked for anything.
func withoutProxy(s datadir.Settings, region string, getenv func(string) string) string {
	if !slices.ContainsFunc(proxies, func(name string) bool { return getenv(name) != "" }) {
		return ""
	}
	var all []string
	add := func(list string) {
		for host := range strings.SplitSeq(list, ",") {
			if host = strings.TrimSpace(host); host != "" && !slices.Contains(all, host) {
				all = append(all, host)
			}
		}
	}
	add(getenv("no_proxy"))
	add(getenv("NO_PROXY"))
	if slices.Contains(all, "*") {
		return ""
	}
	if u, err := url.Parse(daemon.AdvertisedURL(s)); err == nil {
		add(u.Hostname())
	}
	add("127.0.0.1") // the endpoints of clusters where machines are simulated
	if daemon.RealMachines(s) {
		// By name: where they are is known to this host alone.
		add(".eks.amazonaws.com,oidc.eks." + region + ".amazonaws.com," + s.PublicRange)
	}
	return strings.Join(all, ",")
}
