package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// service is what compose_test looks at of a service. What it does not know is an error: a misspelt member is none.
type service struct {
	Image, Restart string
	Build          struct{ Context, Dockerfile string }
	DependsOn      yaml.Node `yaml:"depends_on"`
	Environment    map[string]string
	Volumes, Ports []string
	Healthcheck    struct {
		Test     []string
		Interval string
		Retries  int
	}
	StopGracePeriod string `yaml:"stop_grace_period"`
}

// TestCompose: no image is to be had here, so compose.yaml was never started. Its parts fit together.
func TestCompose(t *testing.T) {
	var compose struct {
		Name     string
		Services map[string]service
		Volumes  map[string]*struct{}
	}
	decode(t, "compose.yaml", &compose)
	require.Len(t, compose.Services, 4)
	mounted := map[string]map[string]string{} // service, path in it: what is there
	for name, s := range compose.Services {
		require.NotEqual(t, s.Image == "", s.Build.Context == "", name)
		mounted[name] = map[string]string{}
		for _, volume := range s.Volumes {
			parts := strings.Split(volume, ":")
			if strings.HasPrefix(parts[0], ".") {
				require.FileExists(t, orAny(t, parts[0]), "%s mounts it", name)
			} else {
				require.Contains(t, compose.Volumes, parts[0], name)
			}
			mounted[name][parts[1]] = parts[0]
		}
		for _, needed := range names(&s.DependsOn) {
			require.Contains(t, compose.Services, needed, name)
		}
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: the passwords are in this file", name)
		}
	}

	shop := compose.Services["shop"]
	require.FileExists(t, filepath.Join(shop.Build.Context, shop.Build.Dockerfile))
	database, err := url.Parse(shop.Environment["DATABASE_URL"])
	require.NoError(t, err)
	server := compose.Services[database.Hostname()].Environment
	password, _ := database.User.Password()
	require.Equal(t, []string{database.User.Username(), password, strings.Trim(database.Path, "/")},
		[]string{server["POSTGRES_USER"], server["POSTGRES_PASSWORD"], server["POSTGRES_DB"]})

	var prometheus struct {
		Global        map[string]string
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	decode(t, mounted["prometheus"]["/etc/prometheus/prometheus.yml"], &prometheus)
	require.Len(t, prometheus.RuleFiles, 1)
	require.Equal(t, observability+"rules.yml", mounted["prometheus"]["/etc/prometheus/"+prometheus.RuleFiles[0]])
	_, port, _ := strings.Cut(shop.Environment["METRICS_ADDR"], ":")
	require.Equal(t, []string{"shop:" + port}, prometheus.ScrapeConfigs[0].StaticConfigs[0].Targets)

	provisioning := mounted["grafana"]["/etc/grafana/provisioning"]
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		DataSources []struct {
			Name, Type, UID, Access, URL string
			IsDefault                    bool `yaml:"isDefault"`
		} `yaml:"datasources"`
	}
	decode(t, provisioning+"/datasources/prometheus.yml", &sources)
	require.Equal(t, "http://prometheus:9090", sources.DataSources[0].URL)
	require.Contains(t, compose.Services["prometheus"].Ports[0], ":9090")
	var dashboards struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	decode(t, provisioning+"/dashboards/idem.yml", &dashboards)
	require.Equal(t, observability+"dashboard.json", mounted["grafana"][dashboards.Providers[0].Options.Path+"/idem.json"])
}

// decode reads a YAML file whose members are all known.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(content(t, name)))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(into), name)
}

// names are the members of a mapping, or the entries of a list.
func names(node *yaml.Node) (all []string) {
	for i, n := range node.Content {
		if node.Kind == yaml.SequenceNode || i%2 == 0 {
			all = append(all, n.Value)
		}
	}
	return all
}

// orAny is a file: name itself, or any file in the folder of this name.
func orAny(t *testing.T, name string) string {
	t.Helper()
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		return name
	}
	found := name
	require.NoError(t, filepath.WalkDir(name, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = path
		}
		return err
	}))
	return found
}
