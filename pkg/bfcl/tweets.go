package bfcl

import (
	"strings"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// tweets is TwitterAPI.
type tweets struct{ state }

var twitterClass = define("TwitterAPI", newTweets, []method[*tweets]{
	{"authenticate_twitter(username, password)", (*tweets).authenticate},
	{"posting_get_login_status()", (*tweets).loginStatus},
	{"post_tweet(content, tags=[], mentions=[])", (*tweets).post},
	{"retweet(tweet_id)", (*tweets).retweet},
	{"comment(tweet_id, comment_content)", (*tweets).comment},
	{"mention(tweet_id, mentioned_usernames)", (*tweets).mention},
	{"follow_user(username_to_follow)", (*tweets).follow},
	{"list_all_following()", (*tweets).following},
	{"unfollow_user(username_to_unfollow)", (*tweets).unfollow},
	{"get_tweet(tweet_id)", (*tweets).get},
	{"get_user_tweets(username)", (*tweets).ofUser},
	{"search_tweets(keyword)", (*tweets).search},
	{"get_tweet_comments(tweet_id)", (*tweets).comments},
	{"get_user_stats(username)", (*tweets).stats},
})

func newTweets(config *python.Dict) *tweets {
	t := &tweets{newState("TwitterAPI", config)}
	t.Set("tweets", wholeKeys(t.dict("tweets")))
	return t
}

func (t *tweets) loggedIn() bool { return python.Truth(t.value("authenticated")) }

func notAuthenticated(what string) python.Value {
	return failed("User not authenticated. Please authenticate before %s.", what)
}

func noTweet(id python.Value) python.Value {
	return failed("Tweet with ID %s not found.", python.String(id))
}

func (t *tweets) authenticate(a arguments) python.Value {
	right := python.Equal(a[0], t.value("username")) && python.Equal(a[1], t.value("password"))
	if right {
		t.Set("authenticated", true)
	}
	return result("authentication_status", right)
}

func (t *tweets) loginStatus(arguments) python.Value { return result("login_status", t.loggedIn()) }

func (t *tweets) post(a arguments) python.Value {
	refuseIf(!t.loggedIn(), notAuthenticated("posting"))
	a.list(1)
	a.list(2)
	id := t.next("tweet_counter")
	tweet := python.NewDict("id", id, "username", t.value("username"), "content", a[0], "tags", a[1], "mentions", a[2])
	t.dict("tweets").Set(id, tweet)
	return tweet
}

// appendTo adds an item to the list under a key, which it makes if need be.
func appendTo(dict *python.Dict, key, item python.Value) {
	value, found := dict.Get(key)
	if !found {
		dict.Set(key, python.NewList(item))
		return
	}
	list, ok := value.(*python.List)
	if !ok {
		raise("'%s' object has no attribute 'append'", python.TypeName(value))
	}
	list.Items = append(list.Items, item)
}

func (t *tweets) retweet(a arguments) python.Value {
	refuseIf(!t.loggedIn(), notAuthenticated("retweeting"))
	lookup(t.dict("tweets"), a.key(0), noTweet(a[0]))
	retweets, user := t.dict("retweets"), t.value("username")
	if earlier, found := retweets.Get(user); found {
		if list, ok := earlier.(*python.List); ok && contains(list, a[0]) {
			return result("retweet_status", "Already retweeted")
		}
	}
	appendTo(retweets, user, a[0])
	return result("retweet_status", "Successfully retweeted")
}

func (t *tweets) comment(a arguments) python.Value {
	refuseIf(!t.loggedIn(), notAuthenticated("commenting"))
	lookup(t.dict("tweets"), a.key(0), noTweet(a[0]))
	appendTo(t.dict("comments"), a[0], python.NewDict("username", t.value("username"), "content", a[1]))
	return result("comment_status", "Comment added successfully")
}

func (t *tweets) mention(a arguments) python.Value {
	tweet := lookup(t.dict("tweets"), a.key(0), noTweet(a[0]))
	mentions, ok := member(tweet, "mentions").(*python.List)
	if !ok {
		raise("mentions is no list")
	}
	mentions.Items = append(mentions.Items, a.list(1).Items...)
	return result("mention_status", "Users mentioned successfully")
}

func (t *tweets) follow(a arguments) python.Value {
	refuseIf(!t.loggedIn(), notAuthenticated("following users"))
	list := t.list("following_list")
	follows := contains(list, a[0])
	if !follows {
		list.Items = append(list.Items, a[0])
	}
	return result("follow_status", !follows)
}

func (t *tweets) following(arguments) python.Value {
	refuseIf(!t.loggedIn(), notAuthenticated("listing who is followed"))
	return result("following_list", t.value("following_list"))
}

func (t *tweets) unfollow(a arguments) python.Value {
	refuseIf(!t.loggedIn(), notAuthenticated("unfollowing users"))
	list := t.list("following_list")
	i := position(list, a[0])
	if i >= 0 {
		list.Items = append(list.Items[:i], list.Items[i+1:]...)
	}
	return result("unfollow_status", i >= 0)
}

func (t *tweets) get(a arguments) python.Value {
	return lookup(t.dict("tweets"), a.key(0), noTweet(a[0]))
}

// choose lists the tweets that pass.
func (t *tweets) choose(passes func(tweet python.Value) bool) *python.List {
	chosen, all := python.NewList(), t.dict("tweets")
	for i := range all.Len() {
		if _, tweet := all.At(i); passes(tweet) {
			chosen.Items = append(chosen.Items, tweet)
		}
	}
	return chosen
}

func (t *tweets) by(user python.Value) *python.List {
	return t.choose(func(tweet python.Value) bool { return python.Equal(member(tweet, "username"), user) })
}

func (t *tweets) ofUser(a arguments) python.Value { return t.by(a[0]) }

func (t *tweets) search(a arguments) python.Value {
	keyword := strings.ToLower(a.text(0))
	return t.choose(func(tweet python.Value) bool {
		if strings.Contains(lowerCase(member(tweet, "content")), keyword) {
			return true
		}
		tags, ok := member(tweet, "tags").(*python.List)
		if !ok {
			return false
		}
		for _, tag := range tags.Items {
			if lowerCase(tag) == keyword { // a part of a tag does not count
				return true
			}
		}
		return false
	})
}

func (t *tweets) comments(a arguments) python.Value {
	lookup(t.dict("tweets"), a.key(0), noTweet(a[0]))
	comments, found := t.dict("comments").Get(a[0])
	if !found {
		comments = python.NewList()
	}
	return comments
}

func (t *tweets) stats(a arguments) python.Value {
	following, retweets := 0, 0
	if python.Equal(a[0], t.value("username")) {
		following = len(t.list("following_list").Items)
	}
	if list, found := t.dict("retweets").Get(a.key(0)); found {
		if list, ok := list.(*python.List); ok {
			retweets = len(list.Items)
		}
	}
	return result("tweet_count", int64(len(t.by(a[0]).Items)), "following_count", int64(following), "retweet_count", int64(retweets))
}
