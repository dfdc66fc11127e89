// promtool, apart from go.mod so that no user of the library inherits its requirements. The tag leaves out the discovery of
// targets in clouds, which promtool does not need to check rules, with its requirements:
//
//	go run -modfile=.ci/promtool.mod -tags remove_all_sd github.com/prometheus/prometheus/cmd/promtool check rules FILE
module github.com/auth19/idem

go 1.26.7

require github.com/prometheus/prometheus v0.316.0
