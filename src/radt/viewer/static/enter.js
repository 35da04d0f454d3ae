// The token has become a cookie: go on to the page, and leave the token out of the history.

location.replace(`${location.pathname}${location.hash}`);
