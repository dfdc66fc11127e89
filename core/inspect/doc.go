// Package inspect serves pages for operators: which operations need somebody, what happened to each, and a form that settles
// it. It is an [http.Handler] for any router. The pages are plain HTML with one style sheet. They need no JavaScript, and
// nothing from another host.
//
// The login is the app's: [Config].Caller says who calls. Who is an operator, and whose operations it sees, is decided by
// core.Config.OperatorRoles and SupervisorRoles (S-5). The pages only read, unless [Config].Settle names the route by which
// the API settles.
package inspect
